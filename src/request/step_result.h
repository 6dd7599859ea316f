#pragma once
// StepResult: what a model runner gives back for one ScheduledBatch: sampled candidates and prompt
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
  float logprob = 0;      // as TokenLogprob has it
  std::int32_t rank = 0;  // 0 when logprobs were not asked for
  bool ends =
      false;  // a constraint is satisfied with it: the sequence ends. Set by the engine, not the runner
};

struct SequenceResult {
  // spec.num_candidates of them, or of a masked beam as many as there are; empty when nothing was sampled
  std::vector<Candidate> candidates;
  bool dead_end = false;          // a constraint let nothing be drawn. Set by the engine, not the runner
  std::vector<TokenLogprob> top;  // the most likely tokens, when logprobs were asked for
  std::vector<SequenceResult> after_drafts;  // [i]: what is drawn if drafts 0..i are right
  std::vector<TokenLogprobs>
      prompt_logprobs;  // for computed positions p: of token p + 1, while it is a prompt token
};

// The cost of mapping pages. A step is delayed when it maps something itself or waits for pages mapped ahead.
struct MapStats {
  std::int64_t calls = 0, pages = 0;              // system calls, and pages of all of them
  std::int64_t calls_ahead = 0, pages_ahead = 0;  // part of these done beside a step
  double seconds = 0, seconds_ahead = 0;          // in a step's way; beside it
  std::int64_t steps_delayed = 0;
};

struct StepResult {
  std::vector<SequenceResult> sequences;  // one per ScheduledSequence, in order
  // Empty, or one per ScheduledSequence: the vector of a sequence that pools and has caught up; of one that
  // has not, what the runner wants to see again with its next chunk (ScheduledSequence::pooled), or none.
  std::vector<std::vector<float>> vectors;
  std::int64_t num_settled_rows = 0;  // drawn without logits, since their masks leave one token
  double swap_seconds = 0;            // that the batch's swap lists took
  // From the end of the batch before to this one's begin, by a device's clock; none: not measured.
  std::optional<double> idle_seconds;
  MapStats mapping;    // since the runner's last result
  TierNews tier_news;  // likewise
  Status status;       // not ok: the device is lost, the engine ends
};

}  // namespace pagoda
