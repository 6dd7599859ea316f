#pragma once
// StepResult: a model runner's result for one ScheduledBatch: sampled candidates and prompt
// log-probabilities, in batch order. Plain data; decoding/ turns it into fork, append and free.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "request/request_output.h"
#include "request/tier_moves.h"

namespace pagoda {

struct Candidate {
  TokenId token = -1;
  float logprob = 0;      // as in TokenLogprob
  std::int32_t rank = 0;  // 0 unless logprobs were requested
  bool ends = false;      // the token completes a constraint; set by the engine, not the runner
};

struct SequenceResult {
  // spec.num_candidates entries, or fewer for a masked beam with fewer choices; empty if nothing was sampled.
  std::vector<Candidate> candidates;
  bool dead_end = false;          // the constraint allowed no token. Set by the engine, not the runner
  std::vector<TokenLogprob> top;  // the most likely tokens, if logprobs were requested
  std::vector<SequenceResult> after_drafts;  // [i]: the draw if drafts 0..i are all correct
  // For each computed position p: of token p + 1, if that is a prompt token.
  std::vector<TokenLogprobs> prompt_logprobs;
};

// The cost of mapping pages. A step counts as delayed if it maps pages itself or waits for pages being mapped
// ahead.
struct MapStats {
  std::int64_t calls = 0, pages = 0;              // system calls, and the pages they mapped
  std::int64_t calls_ahead = 0, pages_ahead = 0;  // the part of these done concurrently with a step
  double seconds = 0, seconds_ahead = 0;          // time that delayed a step; time concurrent with steps
  std::int64_t steps_delayed = 0;
};

struct StepResult {
  std::vector<SequenceResult> sequences;  // one per ScheduledSequence, in order
  // Empty, or one entry per ScheduledSequence: the vector of a pooling sequence that has caught up; otherwise
  // the runner's partial result for the next chunk (ScheduledSequence::pooled), or nothing.
  std::vector<std::vector<float>> vectors;
  std::int64_t num_settled_rows = 0;  // drawn without logits, because their mask allows only one token
  double swap_seconds = 0;            // time taken by the batch's swap lists
  // Device idle time between the end of the previous batch and the start of this one, on the device's clock;
  // absent: not measured.
  std::optional<double> idle_seconds;
  MapStats mapping;    // since the runner's last result
  TierNews tier_news;  // since the runner's last result
  Status status;       // not ok: the device is lost and the engine ends
};

}  // namespace pagoda
