#pragma once
// DraftProposer: guesses the next tokens of a sequence, so that one step can compute several of them
// (speculative decoding). Drafts affect the speed of answers, never their tokens: the strategy accepts a
// draft only if it equals the sampled token.
//
//     propose -> (the step that computes them) -> verified;  or propose again, if there was no room
//
// Depends only on its arguments and on verified(): a replay makes the same drafts.
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
