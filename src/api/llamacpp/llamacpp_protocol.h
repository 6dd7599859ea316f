#pragma once
// llama.cpp's own routes, which editors use: /completion, /infill, /props, /lora-adapters. Its other paths
// are OpenAI's, and /slots and /health are the server's own.
#include "api/protocol.h"

namespace pagoda {

const Protocol& llamacpp_protocol();

}  // namespace pagoda
