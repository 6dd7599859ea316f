#pragma once
// The routes of text-generation-inference (TGI): /generate, /generate_stream, / and /info, for
// huggingface_hub's and TGI's own clients. Its chat and completions are OpenAI's.
#include "api/protocol.h"

namespace pagoda {

const Protocol& tgi_protocol();

}  // namespace pagoda
