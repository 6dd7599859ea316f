#pragma once
// OutputRow: a row of logits of a step and what it is for: scores a prompt's token, or is drawn from. Which
// rows a sequence wants, and how one is drawn from, are the same whatever computes them. Threads: the
// runner's.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "request/step_result.h"
#include "sampler/sampler.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

struct OutputRow {
  std::int32_t sequence = 0;     // index in the batch
  std::int32_t prompt_row = -1;  // index in its prompt_logprobs; -1: sampled from
  TokenId prompt_token = 0;
  std::int32_t draft = 0;  // so many drafts come before it; sampled rows only
};

struct OutputRowRules {
  bool knows_tokens = true;  // the batch holds all tokens of its sequences
  bool settles = true;       // a row whose mask leaves one token is drawn at once, and needs no logits
  std::int32_t vocab_size = 0;
};

// Adds those of sequence `index` of the batch, whose tokens are rows `start`, ... of the step: to `rows`, and
// the numbers of their rows to `row_ids`; makes room in its result.
void add_output_rows(const ScheduledBatch& batch, std::size_t index, std::int32_t start,
                     const OutputRowRules& rules, StepResult& result, std::vector<std::int32_t>& row_ids,
                     std::vector<OutputRow>& rows);

// How to draw from one, but for its logits; into the batch's `result`.
SampleRow sample_row(const ScheduledBatch& batch, StepResult& result, const OutputRow& output);

}  // namespace pagoda
