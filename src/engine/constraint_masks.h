#pragma once
// Constraint masks of one step: filled between schedule() and run(), and the verdict on what was drawn under
// them before anyone else sees it. Threads: the engine thread; the work is spread over the runner's threads.
#include <cstdint>
#include <vector>

#include "engine/request_table.h"
#include "model_runner/model_runner.h"
#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

// A sequence of the batch that is drawn from under masks.
struct MaskedSequence {
  std::size_t position;
  ConstraintSet* constraints;
};

// Fills SampleSpec::masks, and lists into `masked` the sequences that got any.
void fill_masks(std::int32_t vocab_size, RequestTable& requests, ModelRunner& runner, ScheduledBatch& batch,
                std::span<const ScheduledRef> refs, std::vector<MaskedSequence>& masked);

// Marks what was drawn: Candidate::ends, SequenceResult::dead_end. Returns how many masks were computed.
std::int64_t judge_masked(ModelRunner& runner, const ScheduledBatch& batch,
                          std::span<const MaskedSequence> masked, StepResult& result);

}  // namespace pagoda
