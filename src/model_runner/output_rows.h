#pragma once
// OutputRow: a row of a step's logits and its purpose: to score a prompt token, or to draw a token. Which
// rows a sequence needs, and how to draw from one, is the same on every runner.
// Threads: the runner's.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "request/step_result.h"
#include "sampler/sampler.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

struct OutputRow {
  std::int32_t sequence = 0;     // index in the batch
  std::int32_t prompt_row = -1;  // index in its prompt_logprobs; -1: to draw from
  TokenId prompt_token = 0;
  std::int32_t draft = 0;  // number of drafts before it; only for rows to draw from
};

struct OutputRowRules {
  bool knows_tokens = true;  // the batch holds all tokens of its sequences
  bool settles = true;       // a row whose mask leaves one token is drawn at once, without logits
  std::int32_t vocab_size = 0;
};

// Appends the output rows of sequence `index` of the batch, whose tokens are rows `start`, ... of the step,
// to `rows`, and their row numbers to `row_ids`; reserves space in the sequence's result.
void add_output_rows(const ScheduledBatch& batch, std::size_t index, std::int32_t start,
                     const OutputRowRules& rules, StepResult& result, std::vector<std::int32_t>& row_ids,
                     std::vector<OutputRow>& rows);

// Returns how to draw from `output`, without its logits; draws go into `result`.
SampleRow sample_row(const ScheduledBatch& batch, StepResult& result, const OutputRow& output);

}  // namespace pagoda
