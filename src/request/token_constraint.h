#pragma once
// TokenConstraint: the tokens that one sequence may take next, from a grammar, a schema or a list of choices.
// It deals in token ids, not text, and is created by the request's factory. SamplingParams::allowed_token_ids
// is separate.
//     make -> [ fill_mask -> a token is drawn -> advance ]* -> is_terminated, or fill_mask false: a dead end
//   * One for each sequence: forked with it, kept over preemption, ends with it. rollback() undoes drafts.
//   * advance() accepts a token exactly if fill_mask() sets its bit; rollback() restores the state; equal
//     tokens give equal masks. A run repeats from the decisions alone: StepObserver::on_drafts_chosen,
//     Candidate::ends, SequenceResult::dead_end.
// Source: the interface of grammar matchers such as XGrammar's. Threads: one at a time for each object.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "request/ids.h"

namespace pagoda {

// Token masks, one bit per token: token t may be drawn if bit t % 32 of word t / 32 is set. Bits beyond the
// vocabulary are not read.
using MaskWord = std::uint32_t;
constexpr std::size_t mask_words(std::int32_t vocab_size) {
  return (static_cast<std::size_t>(vocab_size) + 31) / 32;
}
inline bool allows(std::span<const MaskWord> mask, TokenId token) {
  return (mask[static_cast<std::size_t>(token) / 32] >> (static_cast<std::uint32_t>(token) % 32) & 1u) != 0;
}
inline void allow(std::span<MaskWord> mask, TokenId token) {
  mask[static_cast<std::size_t>(token) / 32] |= MaskWord{1} << (static_cast<std::uint32_t>(token) % 32);
}

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Writes every word of `mask`: the tokens allowed next, including end of sequence if the text may end here.
  // Returns false at a dead end: no token is allowed, and the constraint is not terminated.
  [[nodiscard]] virtual bool fill_mask(std::span<MaskWord> mask) = 0;
  // Accepts `token`. Returns false, changing nothing, if it is not allowed.
  [[nodiscard]] virtual bool advance(TokenId token) = 0;
  // Undoes the last `count` tokens that advance() took.
  virtual void rollback(std::int32_t count) = 0;
  // An independent copy in the same state.
  virtual std::unique_ptr<TokenConstraint> fork() const = 0;
  // True if the text is complete: the sequence ends with the last token, whether or not that is an end of
  // sequence.
  virtual bool is_terminated() const = 0;
};

// Immutable; shared by the request's sequences and by all requests of the same grammar.
class TokenConstraintFactory {
 public:
  virtual ~TokenConstraintFactory() = default;
  virtual std::unique_ptr<TokenConstraint> make() const = 0;
};

}  // namespace pagoda
