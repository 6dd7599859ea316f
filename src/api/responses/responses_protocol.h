#pragma once
// OpenAI's Responses: /v1/responses and its stream events; retrieving, deleting and cancelling stored
// responses; their input items; counting input tokens. Responses are stored in the AnswerStore.
#include "api/protocol.h"

namespace pagoda {

const Protocol& responses_protocol();

}  // namespace pagoda
