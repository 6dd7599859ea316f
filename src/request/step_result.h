#pragma once
// StepResult: what a model runner gives back for one ScheduledBatch: sampled candidates and prompt
// log-probabilities, in batch order. Plain data; decoding/ turns it into fork, append and free.
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "request/request_output.h"

namespace pagoda {

struct Candidate {
  TokenId token = -1;
  float logprob = 0;                   // raw log-probability
  std::int32_t rank = 0;               // 0 when logprobs were not asked for
};

struct SequenceResult {
  std::vector<Candidate> candidates;   // spec.num_candidates of them; empty when nothing was sampled
  std::vector<TokenLogprob> top;       // the most likely tokens, when logprobs were asked for
  std::vector<TokenLogprobs> prompt_logprobs;  // for computed positions p: of token p + 1, while it is a prompt token
};

struct StepResult {
  std::vector<SequenceResult> sequences;  // one per ScheduledSequence, in order
  double swap_seconds = 0;                // that the batch's swap lists took
  Status status;                          // not ok: the device is lost, the engine ends
};

}  // namespace pagoda
