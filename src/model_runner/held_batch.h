#pragma once
// HeldBatch: a batch with all that it points to but parameters, masks and partial vectors, for a runner that
// carries it out once the batch before it has drawn its tokens (ScheduledSequence::drawn_at). Threads: one at
// a time.
#include <span>
#include <vector>

#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

class HeldBatch {
 public:
  void copy(const ScheduledBatch& from);
  // Fills in what the batch before it has drawn, by sequence: nothing is in flight any more.
  void fill_in(std::span<const TokenId> drawn);
  const ScheduledBatch& batch() const { return batch_; }

 private:
  ScheduledBatch batch_;
  std::vector<TokenId> tokens_;  // all_tokens of each sequence, and then a token that is not known yet
  std::vector<BlockId> blocks_;
  std::vector<KvTable> tables_;
};

// The first token that was drawn for each sequence; kTokenInFlight: none was.
std::vector<TokenId> drawn_tokens(const StepResult& result);

}  // namespace pagoda
