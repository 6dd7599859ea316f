#pragma once
// OpenAI's Responses: /v1/responses with its stream's events, retrieving, deleting and cancelling what was
// stored, its input items, and counting input tokens. What is stored lies in the AnswerStore.
#include "api/protocol.h"

namespace pagoda {

const Protocol& responses_protocol();

}  // namespace pagoda
