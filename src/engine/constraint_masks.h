#pragma once
// Constraint masks of one step: filled between schedule() and run(); the drawn tokens are then judged under
// them before any other code sees the tokens. Threads: the engine thread; the work is spread over the
// runner's threads.
#include <cstdint>
#include <vector>

#include "engine/request_table.h"
#include "model_runner/model_runner.h"
#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

// A sequence of the batch whose tokens are drawn under masks.
struct MaskedSequence {
  std::size_t position;
  ConstraintSet* constraints;
};

// Fills SampleSpec::masks, and lists the sequences with masks in `masked`.
void fill_masks(std::int32_t vocab_size, RequestTable& requests, ModelRunner& runner, ScheduledBatch& batch,
                std::span<const ScheduledRef> refs, std::vector<MaskedSequence>& masked);

// Marks the drawn candidates: Candidate::ends, SequenceResult::dead_end. Returns the number of masks
// computed.
std::int64_t judge_masked(ModelRunner& runner, const ScheduledBatch& batch,
                          std::span<const MaskedSequence> masked, StepResult& result);

}  // namespace pagoda
