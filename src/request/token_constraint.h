#pragma once
// TokenConstraint: the tokens that one sequence may take next: a grammar, a schema, a list of choices. It
// knows token ids, not text; a factory that comes with the request makes it.
// SamplingParams::allowed_token_ids is not one.
//     make -> [ fill_mask -> a token is drawn -> advance ]* -> is_terminated, or fill_mask false: a dead end
//   * Each sequence has one: forked with it, kept over preemption, gone with it. rollback() undoes drafts.
//   * advance() takes a token exactly if fill_mask() sets its bit; rollback() restores the state; equal
//     tokens give equal masks. A run repeats from the decisions alone: StepObserver::on_drafts_chosen,
//     Candidate::ends, SequenceResult::dead_end.
// Source: the interface of grammar matchers such as XGrammar's. Threads: one at a time for each object.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "request/ids.h"

namespace pagoda {

// Masks of tokens, one bit each: token t may be drawn where bit t % 32 of word t / 32 is set. Bits behind the
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

  // Writes every word of `mask`: the tokens that may come next, end of sequence among them where the whole
  // may end here. False: none may, and it is not terminated either: a dead end.
  [[nodiscard]] virtual bool fill_mask(std::span<MaskWord> mask) = 0;
  // `token` has come. False, with nothing changed: it may not.
  [[nodiscard]] virtual bool advance(TokenId token) = 0;
  // Undoes the last `count` tokens that advance() took.
  virtual void rollback(std::int32_t count) = 0;
  // Another one that has come as far, and goes on by itself.
  virtual std::unique_ptr<TokenConstraint> fork() const = 0;
  // All is said: the sequence ends with the last token, whether that is an end of sequence or not.
  virtual bool is_terminated() const = 0;
};

// Immutable; shared by the request's sequences and by all requests of the same grammar.
class TokenConstraintFactory {
 public:
  virtual ~TokenConstraintFactory() = default;
  virtual std::unique_ptr<TokenConstraint> make() const = 0;
};

}  // namespace pagoda
