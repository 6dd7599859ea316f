#pragma once
// llama.cpp's own routes, used by editors: /completion, /infill, /props, /lora-adapters. Its other routes are
// in OpenAI's protocol, except /slots and /health, which belong to the server.
#include "api/protocol.h"

namespace pagoda {

const Protocol& llamacpp_protocol();

}  // namespace pagoda
