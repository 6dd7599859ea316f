#pragma once
// The object `timings`: llama.cpp's counts, times and rates of prompt and answer, and the time spent waiting
// and preempted. For an answer to several prompts, those of the prompt that was done last. Network time is
// not part of it. Source: the README of llama.cpp's server. Threads: none.
#include "api/answer_state.h"
#include "api/json.h"

namespace pagoda {

void write_timings(JsonWriter& json, const AnswerState& answer);
void write_timings(JsonWriter& json, const Usage& usage, const RequestTimes& times);

}  // namespace pagoda
