#pragma once
// Ollama's /api/embed and /api/embeddings: vectors in Ollama's form. `one`: the older route, which takes one
// text. Errors: as parse_ollama_call. Threads: any.
#include "api/protocol.h"

namespace pagoda {

Result<ApiGeneration> ollama_embed(bool one, const ApiCall& call, const ApiContext& context);

}  // namespace pagoda
