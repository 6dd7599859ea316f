#include "decoding/constraint_set.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

void judge_row(TokenConstraint& constraint, bool beam, SequenceResult& row) {
  const auto refused = [&](Candidate& candidate) {
    if (!constraint.advance(candidate.token)) return true;
    candidate.ends = constraint.is_terminated();
    constraint.rollback(1);
    return false;
  };
  // Also where all that may come had a logit of minus infinity, or not a number.
  if (beam) {
    std::erase_if(row.candidates, refused);
    row.dead_end = row.candidates.empty();
  } else {
    row.dead_end = std::ranges::any_of(row.candidates, refused);
  }
}

}  // namespace

namespace {

// The one token that may come; -1: none, or several.
TokenId only_token(std::span<const MaskWord> mask, std::int32_t vocab_size) {
  TokenId only = -1;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    MaskWord word = mask[i];
    if (word == 0) continue;
    const auto first = static_cast<TokenId>(i * 32) + std::countr_zero(word);
    if (first >= vocab_size) break;
    if (only >= 0 || (word & (word - 1)) != 0) return -1;
    only = first;
  }
  return only;
}

}  // namespace

ConstraintSet::ConstraintSet(const TokenConstraintFactory& factory, SequenceId first) {
  constraints_.emplace(first, factory.make());
}

TokenConstraint& ConstraintSet::of(SequenceId id) {
  const auto it = constraints_.find(id);
  CHECK(it != constraints_.end());
  return *it->second;
}

bool ConstraintSet::cut_drafts(Sequence& sequence) {
  if (sequence.draft.empty()) return false;
  TokenConstraint& constraint = of(sequence.id);
  std::int32_t taken = 0;
  std::size_t kept = 0;
  for (; kept < sequence.draft.size(); ++kept) {
    if (!constraint.advance(sequence.draft[kept])) break;
    ++taken;
    if (constraint.is_terminated()) break;
  }
  constraint.rollback(taken);
  const bool cut = kept < sequence.draft.size();
  sequence.draft.resize(kept);
  return cut;
}

bool ConstraintSet::add_forced(Sequence& sequence, std::int32_t limit, std::int32_t vocab_size) {
  TokenConstraint& constraint = of(sequence.id);
  std::int32_t taken = 0;
  for (const TokenId token : sequence.draft) {
    CHECK(constraint.advance(token));
    ++taken;
  }
  const std::size_t before = sequence.draft.size();
  mask_.resize(mask_words(vocab_size));
  while (std::cmp_less(sequence.draft.size(), limit) && constraint.fill_mask(mask_)) {
    const TokenId only = only_token(mask_, vocab_size);
    if (only < 0 || !constraint.advance(only)) break;
    ++taken;
    if (constraint.is_terminated()) break;
    sequence.draft.push_back(only);
  }
  constraint.rollback(taken);
  return sequence.draft.size() > before;
}

void ConstraintSet::fill_masks(SequenceId id, std::span<const TokenId> drafts, std::size_t words,
                               std::span<MaskWord> masks) {
  CHECK(masks.size() == words * (1 + drafts.size()));
  TokenConstraint& constraint = of(id);
  std::int32_t taken = 0;
  for (std::size_t row = 0;; ++row) {
    if (!constraint.fill_mask(masks.subspan(row * words, words))) {
      std::ranges::fill(masks.subspan(row * words), 0);
      break;
    }
    if (row == drafts.size()) break;
    CHECK(constraint.advance(drafts[row]));
    ++taken;
  }
  constraint.rollback(taken);
}

void ConstraintSet::judge(SequenceId id, std::span<const TokenId> drafts, bool beam, SequenceResult& result) {
  TokenConstraint& constraint = of(id);
  std::int32_t taken = 0;
  for (std::size_t row = 0;; ++row) {
    SequenceResult& drawn = row == 0 ? result : result.after_drafts[row - 1];
    judge_row(constraint, beam, drawn);
    if (drawn.dead_end || row == drafts.size() || drawn.candidates.front().token != drafts[row]) break;
    CHECK(constraint.advance(drafts[row]));
    ++taken;
  }
  constraint.rollback(taken);
}

void ConstraintSet::follow(std::span<const Change> changes) {
  for (const Change& change : changes) {
    switch (change.verb) {
      case Verb::fork:
        constraints_.emplace(change.child->id, of(change.sequence->id).fork());
        break;
      case Verb::append:
        CHECK(of(change.sequence->id).advance(change.token));
        break;
      case Verb::free:
        constraints_.erase(change.sequence->id);
        break;
    }
  }
}

}  // namespace pagoda
