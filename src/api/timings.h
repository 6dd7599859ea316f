#pragma once
// Where the time of an answer went, as the object `timings`: llama.cpp's counts, times and rates of prompt
// and answer, and beside them what it was not working for: waiting and preempted. Of an answer to several
// prompts: those of the prompt that was done last. Not what the network took. Source: the README of
// llama.cpp's server. Threads: none.
#include "api/answer_state.h"
#include "api/json.h"

namespace pagoda {

void write_timings(JsonWriter& json, const AnswerState& answer);

}  // namespace pagoda
