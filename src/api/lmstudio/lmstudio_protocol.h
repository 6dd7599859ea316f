#pragma once
// LM Studio's own routes, which list the models and their capabilities. Its clients generate through OpenAI's
// and Anthropic's routes. Source: LM Studio's REST API, v1 and v0.
#include "api/protocol.h"

namespace pagoda {

const Protocol& lmstudio_protocol();

}  // namespace pagoda
