#include "engine/draft_planner.h"

#include <algorithm>

#include "decoding/draft_policy.h"
#include "decoding/ngram_proposer.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMaxForcedAlone = 16;  // for a sequence that runs alone
constexpr std::int32_t kMaxForcedBeside = 8;  // alongside others, which it must not delay

// A forced token costs a row now or a row later. Computing it now pays off while the duration of a step
// hardly depends on the number of rows; with many sequences it would only lengthen the step for all.
std::int32_t max_forced(std::int32_t num_decodes) {
  return worthwhile_guesses(1, num_decodes <= 1 ? kMaxForcedAlone : kMaxForcedBeside, num_decodes);
}

}  // namespace

DraftPlanner::DraftPlanner(const EngineConfig& config, const StepObservers& observers)
    : config_(config), observers_(observers) {
  if (config.speculative && config.speculative->method == DraftMethod::ngram)
    proposer_ = std::make_unique<NgramProposer>(*config.speculative);
}

// Collects the sequences that may have drafts.
void DraftPlanner::collect(RequestTable& requests, bool recomputes) {
  draftable_.clear();
  constraints_.clear();
  for (const auto& [id, state] : requests) {
    SequenceGroup& group = state->group;
    const std::int32_t longest = max_tokens_of(group.request, config_.max_model_len);
    for (const auto& sequence : group.sequences) {
      sequence->draft.clear();
      const bool decodes = sequence->decodes() || (recomputes && sequence->state == SequenceState::resident &&
                                                   sequence->num_missing() <= sequence->num_output_tokens());
      if (!decodes || !group.forked || group.lockstep || sequence->num_output_tokens() == 0) continue;
      if (proposer_ == nullptr && state->constraints == nullptr) continue;
      const std::int32_t limit = longest - sequence->num_tokens() - 1;  // the step draws one token anyway
      draftable_.push_back({.group = &group, .sequence = sequence.get(), .limit = std::max(limit, 0)});
      constraints_.push_back(state->constraints.get());
    }
  }
}

void DraftPlanner::plan(RequestTable& requests, ModelRunner& runner, std::int32_t num_decodes,
                        bool recomputes, std::int64_t step) {
  collect(requests, recomputes);
  if (proposer_ != nullptr) proposer_->propose(draftable_, num_decodes);
  const bool reports_all = proposer_ != nullptr && !proposer_->is_reproducible();
  constrained_.clear();
  for (std::size_t i = 0; i < draftable_.size(); ++i) {
    Sequence* const sequence = draftable_[i].sequence;
    if (constraints_[i] == nullptr) {
      if (reports_all) report_drafts(*sequence);
      continue;
    }
    const bool cut = constraints_[i]->cut_drafts(*sequence);
    constrained_.push_back({.constraints = constraints_[i],
                            .sequence = sequence,
                            .limit = draftable_[i].limit - static_cast<std::int32_t>(sequence->draft.size()),
                            .reported = cut || reports_all});
  }
  if (constrained_.empty()) return;
  if (config_.forced_drafts) force(runner, num_decodes, step);
  for (const Constrained& entry : constrained_)
    if (entry.reported) report_drafts(*entry.sequence);
}

void DraftPlanner::report_drafts(const Sequence& sequence) {
  observers_.notify(&StepObserver::on_drafts_chosen, sequence.id, std::span<const TokenId>(sequence.draft));
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
    entry.reported = entry.reported || added > 0;
  }
}

void DraftPlanner::verified(RequestState& state, Sequence& sequence, std::int32_t num_tried,
                            std::int32_t num_accepted) {
  if (proposer_ != nullptr) proposer_->verified(sequence, num_tried, num_accepted);
  state.times.draft_tokens += num_tried;
  state.times.accepted_tokens += num_accepted;
  observers_.notify(&StepObserver::on_drafts_verified, num_tried, num_accepted);
}

}  // namespace pagoda
