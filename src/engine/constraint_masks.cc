#include "engine/constraint_masks.h"

#include "base/check.h"

namespace pagoda {
namespace {

std::span<const TokenId> drafts_of(const ScheduledSequence& sequence) {
  return sequence.all_tokens.last(static_cast<std::size_t>(sequence.num_draft_tokens));
}

}  // namespace

void fill_masks(std::int32_t vocab_size, RequestTable& requests, ModelRunner& runner, ScheduledBatch& batch,
                std::span<const ScheduledRef> refs, std::vector<MaskedSequence>& masked) {
  masked.clear();
  if (requests.num_constrained() == 0) return;
  const std::size_t words = mask_words(vocab_size);
  for (std::size_t i = 0; i < refs.size(); ++i)
    if (refs[i].group->request.constraint != nullptr && batch.sequences[i].sample)
      masked.push_back({.position = i, .constraints = requests.of(*refs[i].group).constraints.get()});
  runner.for_each(std::ssize(masked), [&](std::int64_t i) {
    const MaskedSequence& entry = masked[static_cast<std::size_t>(i)];
    ScheduledSequence& sequence = batch.sequences[entry.position];
    sequence.spec.masks = entry.constraints->fill_masks(sequence.id, drafts_of(sequence), words);
  });
}

std::int64_t judge_masked(ModelRunner& runner, const ScheduledBatch& batch,
                          std::span<const MaskedSequence> masked, StepResult& result) {
  if (masked.empty()) return 0;
  CHECK(result.sequences.size() == batch.sequences.size());
  std::int64_t num_masks = 0;
  for (const MaskedSequence& entry : masked) num_masks += entry.constraints->take_num_masks();
  runner.for_each(std::ssize(masked), [&](std::int64_t i) {
    const MaskedSequence& entry = masked[static_cast<std::size_t>(i)];
    const ScheduledSequence& sequence = batch.sequences[entry.position];
    entry.constraints->judge(sequence.id, drafts_of(sequence), sequence.spec.beam,
                             result.sequences[entry.position]);
  });
  return num_masks;
}

}  // namespace pagoda
