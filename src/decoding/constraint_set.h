#pragma once
// ConstraintSet: the token constraints of one request, one for each of its sequences. It walks them along
// with what is decided: masks before a step, the judgement of what was drawn after it, then the three verbs.
// Not for requests without a constraint, which have no set and cost nothing. Invariant: between steps a
// sequence's constraint has taken exactly its output tokens, and what was judged since, which the verbs
// mostly say, too: each token is walked once. A place's mask is asked for once, by whoever needs it first,
// and kept until the sequence goes on. Threads: owned by the engine thread; know_next(), fill_masks() and
// judge() of different sequences may run at the same time.
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

  // Cuts the sequence's drafts before the first that may not come, and before one that would end it: that
  // one is drawn anyway. True: some were cut.
  bool cut_drafts(Sequence& sequence);

  // Asks for the mask of what may come next, ahead of those below.
  void know_next(SequenceId id, std::size_t words);

  // Adds drafts behind those that there are while only one of `vocab_size` tokens may come, at most `limit`
  // of them: they are always right. Not one that would end the sequence. How many were added.
  std::int32_t add_forced(Sequence& sequence, std::int32_t limit, std::int32_t vocab_size);

  // One mask of `words` words after another: of what may come after the known tokens, and after each of
  // `drafts`, which cut_drafts() has left. Where nothing may come, and in rows behind that, the mask is all
  // zero. They stay until the sequence goes on.
  std::span<const MaskWord> fill_masks(SequenceId id, std::span<const TokenId> drafts, std::size_t words);

  // Says of what was drawn under these masks which candidates end the sequence (Candidate::ends), and in
  // which rows nothing could be drawn (SequenceResult::dead_end), whatever stands there. A beam's row keeps
  // the candidates that may come, if any. Rows behind a wrong draft are not looked at.
  void judge(SequenceId id, std::span<const TokenId> drafts, bool beam, SequenceResult& result);

  // The verbs, before they are carried out.
  void follow(std::span<const Change> changes);

  // Masks that constraints were asked for, since it was asked last.
  std::int64_t take_num_masks() { return num_masks_.exchange(0, std::memory_order_relaxed); }

 private:
  // A constraint, and the masks behind the known tokens and the first 0, 1, ... of `path`.
  struct Walk {
    explicit Walk(std::unique_ptr<TokenConstraint> start) : constraint(std::move(start)) {}
    std::unique_ptr<TokenConstraint> constraint;
    std::vector<TokenId> path;
    std::vector<MaskWord> rows;  // zeros where nothing may come
    std::size_t num_rows = 0;
    std::vector<TokenId> ahead;  // that judge() has led the constraint along
  };
  // Walks a constraint along drafts, no further than is asked for, and back.
  class Along;

  Walk& of(SequenceId id);        // back where the known tokens end
  Walk& standing(SequenceId id);  // its present walk

  std::unordered_map<SequenceId, Walk> walks_;
  std::atomic<std::int64_t> num_masks_ = 0;
};

}  // namespace pagoda
