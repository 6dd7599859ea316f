#pragma once
// DraftProposer: guesses the next tokens of sequences, so that one step can compute several of each
// (speculative decoding). Drafts affect the speed of answers, never their tokens: the strategy accepts a
// draft only if it equals the sampled token.
//
//     propose -> (the step that computes them) -> verified;  or propose again, if there was no room
//
// Threads: none; owned by the engine thread.
#include <span>

#include "base/status.h"
#include "request/sequence.h"

namespace pagoda {

// A sequence that decodes in the next step, and the maximum number of drafts for it.
struct DraftableSequence {
  const SequenceGroup* group = nullptr;
  Sequence* sequence = nullptr;
  std::int32_t limit = 0;
};

class DraftProposer {
 public:
  virtual ~DraftProposer() = default;

  // Fills the (empty) `draft` of each sequence with at most `limit` drafts, if any are worthwhile with
  // `num_decodes` sequences decoding in the step. `sequences` contains every sequence that may have drafts.
  virtual void propose(std::span<const DraftableSequence> sequences, std::int32_t num_decodes) = 0;

  // `num_tried` of the sequence's drafts were computed, and the first `num_accepted` of them were accepted.
  virtual void verified(Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted) = 0;

  // True if drafts depend only on the arguments and on verified(), so that a replay makes the same ones.
  // Other drafts are recorded.
  virtual bool is_reproducible() const { return true; }

  // For proposers that keep K/V: forgets what no sequence is using.
  virtual void clear_cache() {}
  // As in ModelRunner: releases memory until load_weights().
  virtual Status release_memory() { return ok_status(); }
  virtual Status load_weights() { return ok_status(); }
};

// A proposer that handles one sequence at a time.
class SequenceProposer : public DraftProposer {
 public:
  void propose(std::span<const DraftableSequence> sequences, std::int32_t num_decodes) final {
    for (const DraftableSequence& one : sequences) propose(*one.group, *one.sequence, one.limit, num_decodes);
  }
  virtual void propose(const SequenceGroup& group, Sequence& sequence, std::int32_t limit,
                       std::int32_t num_decodes) = 0;
};

}  // namespace pagoda
