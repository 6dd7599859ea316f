// Mistral: Llama whose layers attend to a sliding window.
#include "models/architecture.h"

namespace pagoda {

const Architecture kMistral = {"mistral", common_description, llama_names};

}  // namespace pagoda
