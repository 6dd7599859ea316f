#pragma once
// OpenAI's protocol with vLLM's extensions: /v1/completions, /v1/chat/completions, /v1/models, /tokenize,
// /detokenize, /version.
#include "api/protocol.h"

namespace pagoda {

const Protocol& openai_protocol();

}  // namespace pagoda
