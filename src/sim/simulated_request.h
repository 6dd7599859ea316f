#pragma once
// Converts a workload's request into an engine request. The workload specifies only lengths and sharing, so
// the tokens are synthetic: equal where prompts are shared, different elsewhere.
// Threads: any.
#include "load/workload.h"
#include "request/request.h"

namespace pagoda {

// `number` is the request's id, from 1. The request generates exactly output_tokens tokens.
Request make_simulated_request(const WorkloadRequest& from, std::uint64_t number, std::uint64_t seed,
                               std::int32_t vocab_size);

}  // namespace pagoda
