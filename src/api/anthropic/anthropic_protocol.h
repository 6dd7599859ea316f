#pragma once
// Anthropic's Messages: /v1/messages and /v1/messages/count_tokens, with Anthropic's errors and stream
// events.
#include "api/protocol.h"

namespace pagoda {

const Protocol& anthropic_protocol();

}  // namespace pagoda
