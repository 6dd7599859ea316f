#pragma once
// LM Studio's own routes: which models there are and what they can do. Its answers come over OpenAI's and
// Anthropic's routes, as everybody's do. Source: LM Studio's REST API, v1 and v0.
#include "api/protocol.h"

namespace pagoda {

const Protocol& lmstudio_protocol();

}  // namespace pagoda
