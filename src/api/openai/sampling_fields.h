#pragma once
// The sampling fields of a body -> SamplingParams and the text-level stop rules. Ranges are vLLM's where it
// has any; llama.cpp's names are accepted too; every multiplier has a cap. The token budget is read in
// request_parser.cc, which knows the prompt's length.
#include "api/api_context.h"
#include "api/field_reader.h"
#include "api/openai/parsed_call.h"

namespace pagoda {

// Reads into `sampling` and `response`; errors are reported through `fields`.
void read_sampling_fields(FieldReader& fields, const ApiContext& context, SamplingParams& sampling,
                          ResponseOptions& response, Warnings& warnings);

}  // namespace pagoda
