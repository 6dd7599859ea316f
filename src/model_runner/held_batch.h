#pragma once
// HeldBatch: a copy of a batch and of the data it points to, except parameters, masks and partial vectors.
// Used by a runner that must wait for the previous batch to draw its tokens (ScheduledSequence::drawn_at).
// Threads: one at a time.
#include <span>
#include <vector>

#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

class HeldBatch {
 public:
  void copy(const ScheduledBatch& from);
  // Fills in the tokens that the previous batch drew, by sequence; afterwards no token of the batch is in
  // flight.
  void fill_in(std::span<const TokenId> drawn);
  const ScheduledBatch& batch() const { return batch_; }

 private:
  ScheduledBatch batch_;
  std::vector<TokenId> tokens_;  // all_tokens of each sequence, followed by any token not known yet
  std::vector<BlockId> blocks_;
  std::vector<KvTable> tables_;
};

// Returns the first token drawn for each sequence; kTokenInFlight if none was drawn.
std::vector<TokenId> drawn_tokens(const StepResult& result);

}  // namespace pagoda
