#pragma once
// How much memory the answer of a call can take, told before it begins, so that all answers together fit a
// budget. Counted is what grows with the call: tokens, their text and log-probabilities, from the engine's
// outputs to the last byte sent. Not the JSON, which is written in small pieces. Units: bytes. Threads: any.
#include <cstdint>
#include <span>

#include "request/request.h"

namespace pagoda {

std::int64_t answer_bytes(std::span<const Request> requests);

}  // namespace pagoda
