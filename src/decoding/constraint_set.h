#pragma once
// ConstraintSet: the token constraints of one request, one for each of its sequences. It advances them with
// each decision: masks before a step, judging the drawn tokens after it, then the three verbs. Requests
// without a constraint have no set and cost nothing. Invariant: between steps a sequence's constraint has
// taken exactly its output tokens, plus the tokens judged since. The verbs mostly append those same tokens,
// so each token is walked once. A position's mask is computed once, on first use, and kept until the sequence
// advances. Threads: owned by the engine thread; know_next(), fill_masks() and judge() of different sequences
// may run concurrently.
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "request/changes.h"
#include "request/step_result.h"
#include "request/token_constraint.h"

namespace pagoda {

class ConstraintSet {
 public:
  ConstraintSet(const TokenConstraintFactory& factory, SequenceId first);

  // Cuts the sequence's drafts before the first one that is not allowed, and before one that would complete
  // the constraint: that one is drawn anyway. Returns true if any draft was cut.
  bool cut_drafts(Sequence& sequence);

  // Computes the mask for the next token ahead of the functions below.
  void know_next(SequenceId id, std::size_t words);

  // Appends drafts while only one of `vocab_size` tokens is allowed, at most `limit`: such drafts are always
  // correct. Does not append a token that would end the sequence. Returns the number of drafts appended.
  std::int32_t add_forced(Sequence& sequence, std::int32_t limit, std::int32_t vocab_size);

  // Returns consecutive masks of `words` words: for the tokens allowed after the known tokens, and after each
  // of `drafts`, which must have passed cut_drafts(). At a dead end, and in rows after it, the mask is all
  // zero. Valid until the sequence advances.
  std::span<const MaskWord> fill_masks(SequenceId id, std::span<const TokenId> drafts, std::size_t words);

  // Judges what was drawn under these masks: marks the candidates that end the sequence (Candidate::ends),
  // and the rows in which nothing could be drawn (SequenceResult::dead_end), whatever their candidates. A
  // beam's row keeps only the allowed candidates. Rows after a wrong draft are not judged.
  void judge(SequenceId id, std::span<const TokenId> drafts, bool beam, SequenceResult& result);

  // Follows the verbs, before they are applied.
  void follow(std::span<const Change> changes);

  // Number of masks computed by the constraints since the last call.
  std::int64_t take_num_masks() { return num_masks_.exchange(0, std::memory_order_relaxed); }

 private:
  // A constraint, and the masks after the known tokens and after the first 0, 1, ... tokens of `path`.
  struct Walk {
    explicit Walk(std::unique_ptr<TokenConstraint> start) : constraint(std::move(start)) {}
    std::unique_ptr<TokenConstraint> constraint;
    std::vector<TokenId> path;
    std::vector<MaskWord> rows;  // zeros at dead ends
    std::size_t num_rows = 0;
    std::vector<TokenId> ahead;  // tokens by which judge() has advanced the constraint
  };
  // Walks a constraint along drafts, only as far as requested, and back.
  class Along;

  Walk& of(SequenceId id);        // rolled back to the end of the known tokens
  Walk& standing(SequenceId id);  // in its current state

  std::unordered_map<SequenceId, Walk> walks_;
  std::atomic<std::int64_t> num_masks_ = 0;
};

}  // namespace pagoda
