// Granite: Llama with scales of the embedding, of what each half adds, of the scores and of the logits.
#include "models/architecture.h"

namespace pagoda {

const Architecture kGranite = {"granite", common_description, llama_names};

}  // namespace pagoda
