// What EngineCore does for constrained requests: masks between schedule() and run(), and the judgement of
// what was drawn before anyone else sees it.
#include <algorithm>

#include "base/check.h"
#include "decoding/draft_policy.h"
#include "engine/engine_core.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMostForced = 16;  // of a sequence that runs alone
constexpr std::int32_t kFewForced = 8;    // beside others, who must not wait for a form that is not theirs

// A forced token costs a row now or a row later. It pays to have it now while a step takes its time whatever
// it computes; beside many it would only make the step longer, for all.
std::int32_t most_forced(std::int32_t num_decodes) {
  return worthwhile_guesses(1, num_decodes <= 1 ? kMostForced : kFewForced, num_decodes);
}

}  // namespace

// Who is first changes from step to step.
void EngineCore::force_drafts(std::int32_t num_decodes) {
  const std::size_t count = held_to_draft_.size(), words = mask_words(config_.vocab_size);
  if (config_.forced_drafts) {
    parts_.runner->for_each(static_cast<std::int64_t>(count), [&](std::int64_t i) {
      const HeldToDraft& held = held_to_draft_[static_cast<std::size_t>(i)];
      held.set->know_next(held.sequence->id, words);
    });
    std::int32_t left = most_forced(num_decodes);
    for (std::size_t i = 0; i < count && left > 0; ++i) {
      HeldToDraft& held = held_to_draft_[(static_cast<std::size_t>(num_steps_) + i) % count];
      const std::int32_t added =
          held.set->add_forced(*held.sequence, std::min(held.limit, left), config_.vocab_size);
      left -= added;
      held.settled = held.settled || added > 0;
    }
  }
  if (observer_ == nullptr) return;
  for (const HeldToDraft& held : held_to_draft_)
    if (held.settled) observer_->on_drafts_cut(held.sequence->id, held.sequence->draft);
}

void EngineCore::fill_masks(ScheduledBatch& batch, std::span<const ScheduledRef> refs) {
  const std::size_t words = mask_words(config_.vocab_size);
  constrained_.clear();
  for (std::size_t i = 0; i < refs.size(); ++i)
    if (refs[i].group->request.constraint != nullptr && batch.sequences[i].sample)
      constrained_.push_back({.position = i, .set = state_of(*refs[i].group).constraints.get()});
  parts_.runner->for_each(std::ssize(constrained_), [&](std::int64_t i) {
    const Constrained& entry = constrained_[static_cast<std::size_t>(i)];
    ScheduledSequence& sequence = batch.sequences[entry.position];
    sequence.spec.masks = entry.set->fill_masks(
        sequence.id, sequence.all_tokens.last(static_cast<std::size_t>(sequence.num_draft_tokens)), words);
  });
}

void EngineCore::judge_constrained(const ScheduledBatch& batch, StepResult& result) {
  CHECK(result.sequences.size() == batch.sequences.size());
  std::int64_t num_masks = 0;
  for (const Constrained& entry : constrained_) num_masks += entry.set->take_num_masks();
  metrics_.on_masks(num_masks, result.num_settled_rows);
  parts_.runner->for_each(std::ssize(constrained_), [&](std::int64_t i) {
    const Constrained& entry = constrained_[static_cast<std::size_t>(i)];
    const ScheduledSequence& sequence = batch.sequences[entry.position];
    entry.set->judge(sequence.id,
                     sequence.all_tokens.last(static_cast<std::size_t>(sequence.num_draft_tokens)),
                     sequence.spec.beam, result.sequences[entry.position]);
  });
}

}  // namespace pagoda
