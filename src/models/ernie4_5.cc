// ERNIE 4.5: Llama that rotates adjacent pairs.
#include "models/architecture.h"

namespace pagoda {

const Architecture kErnie45 = {"ernie4_5", common_description, llama_names};

}  // namespace pagoda
