#pragma once
// Writes the object `timings`: llama.cpp's counts, times and rates of prompt and answer, plus the time spent
// waiting and preempted. For several prompts, it describes the prompt that finished last. Network time is not
// included. Source: the README of llama.cpp's server. Threads: none.
#include "api/answer_state.h"
#include "api/json.h"

namespace pagoda {

void write_timings(JsonWriter& json, const AnswerState& answer);
void write_timings(JsonWriter& json, const Usage& usage, const RequestTimes& times);

}  // namespace pagoda
