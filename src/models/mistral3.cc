// Mistral 3 (Ministral): Llama whose queries grow with the position.
#include "models/architecture.h"

namespace pagoda {

const Architecture kMistral3 = {"mistral3", common_description, llama_names};

}  // namespace pagoda
