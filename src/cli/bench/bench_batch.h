#pragma once
// Runs one batch of requests through an engine and times it: the unit that `pagoda bench` repeats. Blocks the
// caller until all requests are complete.
#include <cstdint>

#include "base/status.h"
#include "request/engine_snapshot.h"

namespace pagoda {

class AssembledEngine;

// The decoding of each request; greedy unless a field is set.
struct BenchDecoding {
  std::int32_t n = 1;           // above 1: sampled at temperature 1
  std::int32_t best_of = 0;     // 0: n
  std::int32_t beam_width = 0;  // 0: no beam search
  std::int32_t prefix_len = 0;  // tokens at the beginning of the prompt, shared by all requests
};

struct BenchShape {
  // input_len and output_len: tokens per request.
  std::int32_t num_requests = 1, input_len = 1, output_len = 1;
  BenchDecoding decoding;
};

// The times of the first tokens and of the last token.
struct BatchTimes {
  double prefill_seconds = 0;  // until every request has its first token
  double total_seconds = 0;
  double decode_seconds = 0;       // from then until the first request is finished: all requests run
  std::int64_t decode_tokens = 0;  // generated in that time; 0: no such period
  std::int64_t output_tokens = 0;
};

// Submits all requests at once, with ids from next_id and prompts drawn from `seed`, and waits for all of
// them.
Result<BatchTimes> run_batch(AssembledEngine& engine, const BenchShape& shape, std::uint64_t seed,
                             std::uint64_t& next_id);

// Returns the first engine's state between two steps; waits for the running step.
Result<std::shared_ptr<const EngineSnapshot>> engine_snapshot(AssembledEngine& engine);

}  // namespace pagoda
