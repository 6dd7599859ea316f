#pragma once
// Sampling fields of llama.cpp's and Ollama's clients that OpenAI and vLLM do not have. An unsupported field
// that would change the tokens drawn is refused by name, unless its value switches it off (these clients
// often send such values). An unsupported field that only bounds or tunes causes a warning. Threads: any.
#include "api/field_reader.h"
#include "api/warnings.h"
#include "request/sampling_params.h"

namespace pagoda {

// Call after reading the other sampling fields, which `samplers` and `repeat_last_n` may switch off.
void read_peer_sampling(FieldReader& fields, SamplingParams& sampling, Warnings& warnings);

}  // namespace pagoda
