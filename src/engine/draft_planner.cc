#include "engine/draft_planner.h"

#include <algorithm>

#include "decoding/draft_policy.h"
#include "decoding/ngram_proposer.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMaxForcedAlone = 16;  // for a sequence that runs alone
constexpr std::int32_t kMaxForcedBeside = 8;  // beside others, which must not wait for it

// A forced token costs a row now or a row later. Computing it now pays while a step's time hardly depends on
// the number of rows; beside many sequences it would only lengthen the step for all.
std::int32_t max_forced(std::int32_t num_decodes) {
  return worthwhile_guesses(1, num_decodes <= 1 ? kMaxForcedAlone : kMaxForcedBeside, num_decodes);
}

}  // namespace

DraftPlanner::DraftPlanner(const EngineConfig& config, const StepObservers& observers)
    : config_(config), observers_(observers) {
  if (config.speculative) proposer_ = std::make_unique<NgramProposer>(*config.speculative);
}

void DraftPlanner::plan(RequestTable& requests, ModelRunner& runner, std::int32_t num_decodes,
                        bool recomputes, std::int64_t step) {
  constrained_.clear();
  for (const auto& [id, state] : requests) {
    SequenceGroup& group = state->group;
    const std::int32_t longest = max_tokens_of(group.request, config_.max_model_len);
    for (const auto& sequence : group.sequences) {
      sequence->draft.clear();
      const bool decodes = sequence->decodes() || (recomputes && sequence->state == SequenceState::resident &&
                                                   sequence->num_missing() <= sequence->num_output_tokens());
      if (!decodes || !group.forked || group.lockstep || sequence->num_output_tokens() == 0) continue;
      const std::int32_t limit = longest - sequence->num_tokens() - 1;  // one token comes anyway
      if (limit > 0 && proposer_ != nullptr) proposer_->propose(group, *sequence, limit, num_decodes);
      if (state->constraints == nullptr) continue;
      const bool cut = state->constraints->cut_drafts(*sequence);
      constrained_.push_back({.constraints = state->constraints.get(),
                              .sequence = sequence.get(),
                              .limit = limit - static_cast<std::int32_t>(sequence->draft.size()),
                              .changed = cut});
    }
  }
  if (constrained_.empty()) return;
  if (config_.forced_drafts) force(runner, num_decodes, step);
  for (const Constrained& entry : constrained_)
    if (entry.changed)
      observers_.tell(&StepObserver::on_drafts_cut, entry.sequence->id,
                      std::span<const TokenId>(entry.sequence->draft));
}

void DraftPlanner::force(ModelRunner& runner, std::int32_t num_decodes, std::int64_t step) {
  const std::size_t count = constrained_.size(), words = mask_words(config_.vocab_size);
  runner.for_each(static_cast<std::int64_t>(count), [&](std::int64_t i) {
    const Constrained& entry = constrained_[static_cast<std::size_t>(i)];
    entry.constraints->know_next(entry.sequence->id, words);
  });
  std::int32_t left = max_forced(num_decodes);
  for (std::size_t i = 0; i < count && left > 0; ++i) {
    Constrained& entry = constrained_[(static_cast<std::size_t>(step) + i) % count];
    const std::int32_t added =
        entry.constraints->add_forced(*entry.sequence, std::min(entry.limit, left), config_.vocab_size);
    left -= added;
    entry.changed = entry.changed || added > 0;
  }
}

void DraftPlanner::verified(RequestState& state, Sequence& sequence, std::int32_t num_tried,
                            std::int32_t num_accepted) {
  if (proposer_ != nullptr) proposer_->verified(sequence, num_tried, num_accepted);
  state.times.draft_tokens += num_tried;
  state.times.accepted_tokens += num_accepted;
  observers_.tell(&StepObserver::on_drafts_verified, num_tried, num_accepted);
}

}  // namespace pagoda
