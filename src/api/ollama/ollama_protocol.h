#pragma once
// Ollama's API: /api/generate and /api/chat (lines of JSON), /api/tags, /api/show, /api/ps, /api/version.
// There is one model, always loaded: routes that pull, copy or delete models are not served.
#include "api/protocol.h"

namespace pagoda {

const Protocol& ollama_protocol();

}  // namespace pagoda
