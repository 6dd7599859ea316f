#pragma once
// Ollama's API: /api/generate and /api/chat (lines of JSON), /api/tags, /api/show, /api/ps, /api/version. One
// model, which is loaded: what pulls, copies or deletes models is not served.
#include "api/protocol.h"

namespace pagoda {

const Protocol& ollama_protocol();

}  // namespace pagoda
