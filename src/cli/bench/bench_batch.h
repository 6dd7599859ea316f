#pragma once
// One batch of requests through an engine, timed: what `pagoda bench` repeats. Blocks its caller until all
// are through.
#include <cstdint>

#include "base/status.h"
#include "request/engine_snapshot.h"

namespace pagoda {

class AssembledEngine;

// How each request decodes; greedy unless one of them is set.
struct BenchDecoding {
  std::int32_t n = 1;           // above 1: sampled at temperature 1
  std::int32_t best_of = 0;     // 0: n
  std::int32_t beam_width = 0;  // 0: no beam search
  std::int32_t prefix_len = 0;  // tokens at the beginning of the prompt that all requests share
};

struct BenchShape {
  std::int32_t num_requests = 1, input_len = 1, output_len = 1;  // tokens of each
  BenchDecoding decoding;
};

// When each request got its first token, and when the last token came.
struct BatchTimes {
  double prefill_seconds = 0;  // until every request has its first token
  double total_seconds = 0;
  double decode_seconds = 0;       // from then until the first is finished: all run
  std::int64_t decode_tokens = 0;  // generated in that time; 0: there was none
  std::int64_t output_tokens = 0;
};

// Submits the requests at once, numbered on from next_id, with prompts drawn from seed, and waits for all.
Result<BatchTimes> run_batch(AssembledEngine& engine, const BenchShape& shape, std::uint64_t seed,
                             std::uint64_t& next_id);

// The first engine's state between two steps; waits for the step that runs.
Result<std::shared_ptr<const EngineSnapshot>> engine_snapshot(AssembledEngine& engine);

}  // namespace pagoda
