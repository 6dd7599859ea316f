#pragma once
// DraftProposer: drafts the next tokens of a sequence, so that one step can compute several of them
// (speculative decoding). What is drafted decides how fast answers come, never what they are: the strategy
// takes a draft only where it is what was drawn.
//
//     propose -> (the step that computes them) -> verified;  or propose again, if there was no room
//
// Depends on nothing but its arguments and what verified() told: a replay drafts the same.
// Threads: none; owned by the engine thread.
#include "request/sequence.h"

namespace pagoda {

class DraftProposer {
 public:
  virtual ~DraftProposer() = default;

  // Fills sequence.draft, which is empty, with at most `limit` drafts, if any are worth their while beside
  // `num_decodes` sequences that decode in the step.
  virtual void propose(const SequenceGroup& group, Sequence& sequence, std::int32_t limit,
                       std::int32_t num_decodes) = 0;

  // `num_tried` of the sequence's drafts were computed, and the first `num_accepted` of them were right.
  virtual void verified(Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted) = 0;
};

}  // namespace pagoda
