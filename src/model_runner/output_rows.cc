#include "model_runner/output_rows.h"

#include <algorithm>

namespace pagoda {

void add_output_rows(const ScheduledBatch& batch, std::size_t index, std::int32_t start,
                     const OutputRowRules& rules, StepResult& result, std::vector<std::int32_t>& row_ids,
                     std::vector<OutputRow>& rows) {
  const ScheduledSequence& sequence = batch.sequences[index];
  SequenceResult& own = result.sequences[index];
  const auto count = static_cast<std::int32_t>(sequence.tokens.size());
  const std::int32_t computed = sequence.num_computed_tokens;
  if (sequence.prompt_logprobs >= 0) {
    // Row r, at position computed + r, scores the prompt token after it.
    const std::int32_t scored = std::clamp(sequence.num_prompt_tokens - 1 - computed, 0, count);
    own.prompt_logprobs.resize(static_cast<std::size_t>(scored));
    for (std::int32_t row = 0; row < scored; ++row) {
      const auto scored_at = static_cast<std::size_t>(computed + row + 1);
      row_ids.push_back(start + row);
      rows.push_back({.sequence = static_cast<std::int32_t>(index),
                      .prompt_row = row,
                      .prompt_token = rules.knows_tokens ? sequence.all_tokens[scored_at] : -1});
    }
  }
  if (!sequence.sample) return;
  own.after_drafts.resize(static_cast<std::size_t>(sequence.num_draft_tokens));
  for (std::int32_t draft = 0; draft <= sequence.num_draft_tokens; ++draft) {
    const OutputRow row{.sequence = static_cast<std::int32_t>(index), .draft = draft};
    if (rules.settles && !sequence.spec.masks.empty() &&
        Sampler::settle(sample_row(batch, result, row), rules.vocab_size)) {
      ++result.num_settled_rows;
      continue;
    }
    row_ids.push_back(start + count - 1 - sequence.num_draft_tokens + draft);
    rows.push_back(row);
  }
}

SampleRow sample_row(const ScheduledBatch& batch, StepResult& result, const OutputRow& output) {
  const auto index = static_cast<std::size_t>(output.sequence);
  const ScheduledSequence& sequence = batch.sequences[index];
  const SampleSpec& spec = sequence.spec;
  SequenceResult& target = result.sequences[index];
  // As if drafts before this row were accepted and drafts after it were unknown.
  const auto known = sequence.all_tokens.first(
      sequence.all_tokens.size() - static_cast<std::size_t>(sequence.num_draft_tokens - output.draft));
  const auto num_prompt = std::min(static_cast<std::size_t>(sequence.num_prompt_tokens), known.size());
  const std::size_t words = spec.masks.size() / static_cast<std::size_t>(1 + sequence.num_draft_tokens);
  return {.params = spec.params,
          .seed = spec.seed,
          .first_stream = spec.first_stream,
          .num_candidates = spec.num_candidates,
          .beam = spec.beam,
          .position = spec.num_output_tokens + output.draft,
          .prompt = known.first(num_prompt),
          .output = known.subspan(num_prompt),
          .mask = spec.masks.subspan(static_cast<std::size_t>(output.draft) * words, words),
          .result =
              output.draft == 0 ? &target : &target.after_drafts[static_cast<std::size_t>(output.draft - 1)]};
}

}  // namespace pagoda
