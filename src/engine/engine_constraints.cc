// What EngineCore does for constrained requests: masks between schedule() and run(), and the judgement of
// what was drawn before anyone else sees it.
#include <algorithm>

#include "base/check.h"
#include "engine/engine_core.h"

namespace pagoda {

void EngineCore::fill_masks(ScheduledBatch& batch, std::span<const ScheduledRef> refs) {
  const std::size_t words = mask_words(config_.vocab_size);
  constrained_.clear();
  std::size_t total = 0;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    if (refs[i].group->request.constraint == nullptr || !batch.sequences[i].sample) continue;
    constrained_.push_back({.position = i, .set = state_of(*refs[i].group).constraints.get()});
    total += words * static_cast<std::size_t>(1 + batch.sequences[i].num_draft_tokens);
  }
  masks_.resize(total);
  std::span<MaskWord> rest(masks_);
  for (const Constrained& entry : constrained_) {
    ScheduledSequence& sequence = batch.sequences[entry.position];
    const std::span<const TokenId> drafts =
        sequence.all_tokens.last(static_cast<std::size_t>(sequence.num_draft_tokens));
    const std::span<MaskWord> own = rest.first(words * (1 + drafts.size()));
    rest = rest.subspan(own.size());
    entry.set->fill_masks(sequence.id, drafts, words, own);
    sequence.spec.masks = own;
  }
}

void EngineCore::judge_constrained(const ScheduledBatch& batch, StepResult& result) {
  CHECK(result.sequences.size() == batch.sequences.size());
  for (const Constrained& entry : constrained_) {
    const ScheduledSequence& sequence = batch.sequences[entry.position];
    entry.set->judge(sequence.id,
                     sequence.all_tokens.last(static_cast<std::size_t>(sequence.num_draft_tokens)),
                     sequence.spec.beam, result.sequences[entry.position]);
  }
}

}  // namespace pagoda
