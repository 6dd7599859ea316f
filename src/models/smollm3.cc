// SmolLM3: Llama whose every fourth layer does not rotate.
#include "models/architecture.h"

namespace pagoda {

const Architecture kSmolLm3 = {"smollm3", common_description, llama_names};

}  // namespace pagoda
