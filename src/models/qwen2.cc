// Qwen2: Llama with biases on query, key and value, used wherever the file has them.
#include "models/architecture.h"

namespace pagoda {

// As GGUF calls the text part of the one that sees.
const Architecture kQwen2Vl = {"qwen2vl", common_description, llama_names};
const Architecture kQwen2 = {"qwen2", common_description, llama_names};

}  // namespace pagoda
