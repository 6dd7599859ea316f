#pragma once
// The routes of text-generation-inference (TGI): /generate, /generate_stream, / and /info, for the clients of
// huggingface_hub and TGI. Its chat and completions are in OpenAI's protocol.
#include "api/protocol.h"

namespace pagoda {

const Protocol& tgi_protocol();

}  // namespace pagoda
