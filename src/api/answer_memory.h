#pragma once
// The maximum memory of a call's answer, known before the call starts, so that all answers together fit a
// budget. It counts everything that grows with the answer: tokens, their text and log-probabilities, from the
// engine's outputs to the last byte sent. JSON is not counted: it is written in small pieces. Units: bytes.
// Threads: any.
#include <cstdint>
#include <span>

#include "request/request.h"

namespace pagoda {

std::int64_t answer_bytes(std::span<const Request> requests);

}  // namespace pagoda
