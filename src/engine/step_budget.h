#pragma once
// StepBudget: the number of tokens per step that keeps a step within --target-itl-ms, the gap seen by running
// streams while other requests' prompts are computed in chunks. The costs of a decode and of a prompt token
// are learned from past steps (cost_estimate.h). Not a guarantee: a step with more decodes than the target
// allows takes longer, and prompts get a share of any step. Uses no clock: the same steps give the same
// budgets, also in a replay. Source: Sarathi-Serve (OSDI'24) §4.3, a token budget from a latency target;
// measured, not profiled. Threads: none; owned by the engine.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/cost_estimate.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

class StepBudget {
 public:
  // max_tokens: the limit of any step.
  StepBudget(double target_seconds, std::int32_t max_tokens)
      : target_(target_seconds), max_tokens_(max_tokens) {}
  const CostEstimate& cost() const { return cost_; }

  // Token budget for a step with `num_decodes` running streams and a prompt computed up to `position`. No
  // limit without streams.
  std::int32_t tokens(std::int32_t num_decodes, std::int32_t position) const {
    if (num_decodes == 0) return max_tokens_;
    const double decoding = cost_.seconds({.decodes = static_cast<double>(num_decodes)});
    const double seconds = std::max(target_ - decoding, kMinShare * decoding);
    const double prompt = cost_.known() ? cost_.prompt_tokens(seconds, position) : kFirstTokens;
    const double whole = std::max(std::floor(prompt), kMinTokens) + num_decodes;
    return static_cast<std::int32_t>(std::min<double>(whole, max_tokens_));
  }

  void on_step(const ScheduledBatch& batch, double seconds) {
    StepWork work;
    for (const ScheduledSequence& sequence : batch.sequences) {
      const auto count = static_cast<double>(sequence.tokens.size());
      if (count == 1 || sequence.num_draft_tokens > 0) {
        work.decodes += count;
      } else {
        work.tokens += count;
        work.attended += count * (sequence.num_computed_tokens + count / 2) / 1000;
      }
    }
    // A few prompt tokens cost as much as the same number of decodes.
    if (work.tokens < kMinTokens) work = {.decodes = work.decodes + work.tokens};
    if (seconds > 0 && !batch.empty()) cost_.learn(work, seconds);
  }

 private:
  static constexpr double kFirstTokens = 128;  // prompt tokens, before costs are known
  static constexpr double kMinTokens = 16;     // minimum number of prompt tokens
  static constexpr double kMinShare = 0.5;     // minimum time for prompts, as a share of the decodes' time

  double target_;
  std::int32_t max_tokens_;
  CostEstimate cost_;
};

}  // namespace pagoda
