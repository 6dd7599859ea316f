// What EngineCore settles before schedule(): the step's token budget and the drafts; and what it learns of
// them.
#include <algorithm>

#include "engine/engine_core.h"
#include "scheduler/group_ops.h"

namespace pagoda {

void EngineCore::plan_step() {
  const bool drafts = proposer_ != nullptr || config_.forced_drafts;
  if (!drafts && config_.target_itl_ms == 0) return;
  std::int32_t num_decodes = 0, position = 0;  // the latter: of the prompt that has got furthest
  for (const auto& [id, state] : requests_) {
    const SequenceGroup& group = state->group;
    std::int32_t decodes = 0;
    for (const auto& sequence : group.sequences) {
      if (sequence->decodes())
        ++decodes;
      else if (sequence->state == SequenceState::resident)
        position = std::max(position, sequence->num_computed_tokens);
    }
    // Beams that are parked come back beside their leader, and all of them take the step.
    num_decodes += group.lockstep && group.forked && decodes > 0 ? group.num_live() : decodes;
  }
  if (config_.target_itl_ms > 0) parts_.scheduler->set_token_budget(budget_.tokens(num_decodes, position));
  if (drafts) propose_drafts(num_decodes);
}

void EngineCore::propose_drafts(std::int32_t num_decodes) {
  const bool again = has_states(parts_.kv->geometry().groups());  // accepted drafts are computed once more
  held_to_draft_.clear();
  for (const auto& [id, state] : requests_) {
    SequenceGroup& group = state->group;
    const std::int32_t longest = max_tokens_of(group.request, config_.max_model_len);
    for (const auto& sequence : group.sequences) {
      sequence->draft.clear();
      const bool decodes = sequence->decodes() || (again && sequence->state == SequenceState::resident &&
                                                   sequence->num_missing() <= sequence->num_output_tokens());
      if (!decodes || !group.forked || group.lockstep || sequence->num_output_tokens() == 0) continue;
      // One token comes anyway.
      const std::int32_t limit = longest - sequence->num_tokens() - 1;
      if (limit > 0 && proposer_ != nullptr) proposer_->propose(group, *sequence, limit, num_decodes);
      if (state->constraints == nullptr) continue;
      const bool cut = state->constraints->cut_drafts(*sequence);
      held_to_draft_.push_back({.set = state->constraints.get(),
                                .sequence = sequence.get(),
                                .limit = limit - static_cast<std::int32_t>(sequence->draft.size()),
                                .settled = cut});
    }
  }
  if (!held_to_draft_.empty()) force_drafts(num_decodes);
}

// How the drafts fared: what has been appended from changes_[first_change] on is the sequence's.
void EngineCore::note_drafts(RequestState& state, const ScheduledSequence& scheduled, Sequence& sequence,
                             std::size_t first_change) {
  const auto appended =
      std::count_if(changes_.begin() + static_cast<std::ptrdiff_t>(first_change), changes_.end(),
                    [&](const Change& c) { return c.sequence == &sequence && c.verb == Verb::append; });
  const auto accepted =
      std::max(0, static_cast<std::int32_t>(appended) - 1);  // at a dead end nothing is appended
  if (proposer_ != nullptr) proposer_->verified(sequence, scheduled.num_draft_tokens, accepted);
  state.times.draft_tokens += scheduled.num_draft_tokens;
  state.times.accepted_tokens += accepted;
  metrics_.on_drafts(scheduled.num_draft_tokens, accepted);
}

}  // namespace pagoda
