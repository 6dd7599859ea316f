// Qwen2: Llama with biases on query, key and value, used wherever the file has them.
#include "models/architecture.h"

namespace pagoda {

const Architecture kQwen2 = {"qwen2", common_description, llama_names};

}  // namespace pagoda
