#pragma once
// A workload's request as the engine gets it. Only lengths and what is shared are known, so the tokens are
// made up: equal where the workload says that prompts are equal, different everywhere else.
// Threads: any.
#include "load/workload.h"
#include "request/request.h"

namespace pagoda {

// `number` is the request's id, from 1. It asks for exactly output_tokens tokens.
Request make_simulated_request(const WorkloadRequest& from, std::uint64_t number, std::uint64_t seed,
                               std::int32_t vocab_size);

}  // namespace pagoda
