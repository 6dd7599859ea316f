#pragma once
// StepBudget: how many tokens a step may take so that it lasts no longer than --target-itl-ms, which is what
// running streams feel while the prompts of others are computed in pieces. Learns from the steps that have
// run what a decode and a prompt's token take; a guess that was wrong corrects itself, for what it plans by
// is what steps of that plan took.
//
//     a step's time = row_seconds * (kStepRows + decodes) + prompt_token_seconds * prompt tokens
//
// Not a promise: a step with more decodes than the target allows takes its time, and prompts get a share of
// any step. Knows no clock: the same steps give the same budgets, in a replay too.
// Source: Sarathi-Serve (OSDI'24) §4.3, a token budget from a latency target; measured, not profiled.
// Threads: none; owned by the engine.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "decoding/draft_policy.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

class StepBudget {
 public:
  // max_tokens: of any step.
  StepBudget(double target_seconds, std::int32_t max_tokens)
      : target_(target_seconds), max_tokens_(max_tokens) {}

  // For a step beside `num_decodes` running streams; without any, nobody waits.
  std::int32_t tokens(std::int32_t num_decodes) const {
    if (num_decodes == 0) return max_tokens_;
    const double decoding = row_seconds_ * (kStepRows + num_decodes);
    const double seconds = std::max(target_ - decoding, kLeastShare * decoding);
    const double prompt = prompt_token_seconds_ > 0 ? seconds / prompt_token_seconds_ : kFirstTokens;
    const double whole = std::max(std::floor(prompt), kLeastTokens) + num_decodes;
    return static_cast<std::int32_t>(std::min<double>(whole, max_tokens_));
  }

  void on_step(const ScheduledBatch& batch, double seconds) {
    double rows = 0, prompt = 0;
    for (const ScheduledSequence& sequence : batch.sequences) {
      const auto count = static_cast<double>(sequence.tokens.size());
      (count == 1 || sequence.num_draft_tokens > 0 ? rows : prompt) += count;
    }
    if (seconds <= 0) return;
    if (prompt == 0) return learn(row_seconds_, seconds / (kStepRows + rows));
    const double left = seconds - row_seconds_ * (kStepRows + rows);
    // Few tokens say little.
    if (left > 0 && prompt >= kLeastTokens) learn(prompt_token_seconds_, left / prompt);
  }

 private:
  static constexpr double kFirstTokens = 128;  // of prompts, before anything is known
  static constexpr double kLeastTokens = 16;   // of prompts, in any case
  static constexpr double kLeastShare = 0.5;   // of the decodes' time, for prompts in any case
  // Prompts cost more the longer they are, so what is above the estimate counts more than what is below.
  static constexpr double kWeightAbove = 0.5, kWeightBelow = 0.1;
  static void learn(double& value, double latest) {
    value = value == 0 ? latest : value + (latest > value ? kWeightAbove : kWeightBelow) * (latest - value);
  }

  const double target_;
  const std::int32_t max_tokens_;
  double row_seconds_ = 0, prompt_token_seconds_ = 0;  // 0: not known yet
};

}  // namespace pagoda
