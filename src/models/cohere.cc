// Command (Cohere): layer norms without biases, one for both halves, which see the same; adjacent pairs;
// scaled logits. Command 2 has windows in three of four layers, which alone rotate.
#include "models/architecture.h"

namespace pagoda {

const Architecture kCohere = {"cohere", each_head_description, llama_names};
const Architecture kCommandR = {"command-r", each_head_description, llama_names};  // as GGUF calls it
const Architecture kCohere2 = {"cohere2", layer_norm_description, llama_names};

}  // namespace pagoda
