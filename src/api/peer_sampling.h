#pragma once
// Sampling as llama.cpp's and Ollama's clients ask for it beyond the fields that OpenAI and vLLM have too.
// A field that would draw other tokens and is not built is refused by name unless its value switches it off,
// as these clients send it; one that only bounds or tunes is answered with a warning. Threads: any.
#include "api/field_reader.h"
#include "api/warnings.h"
#include "request/sampling_params.h"

namespace pagoda {

// After the other fields of sampling, which `samplers` and `repeat_last_n` switch off.
void read_peer_sampling(FieldReader& fields, SamplingParams& sampling, Warnings& warnings);

}  // namespace pagoda
