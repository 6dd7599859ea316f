#include "decoding/constraint_set.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "request/forced_token.h"

namespace pagoda {
namespace {

constexpr std::size_t kKeptRows = 2;  // number of masks per sequence whose memory is kept

// Judges a row with several candidates, or a beam's row.
void judge_row(TokenConstraint& constraint, bool beam, SequenceResult& row) {
  const auto refused = [&](Candidate& candidate) {
    if (!constraint.advance(candidate.token)) return true;
    candidate.ends = constraint.is_terminated();
    constraint.rollback(1);
    return false;
  };
  // This also covers the case that every allowed token had a logit of minus infinity or NaN.
  if (beam) {
    std::erase_if(row.candidates, refused);
    row.dead_end = row.candidates.empty();
  } else {
    row.dead_end = std::ranges::any_of(row.candidates, refused);
  }
}

}  // namespace

class ConstraintSet::Along {
 public:
  Along(Walk& walk, std::size_t words, std::atomic<std::int64_t>& num_masks)
      : walk_(walk), words_(words), num_masks_(num_masks) {}
  ~Along() { walk_.constraint->rollback(taken_); }
  Along(const Along&) = delete;
  Along& operator=(const Along&) = delete;

  // The constraint after the first `count` of `drafts`, which must be allowed.
  TokenConstraint& behind(std::span<const TokenId> drafts, std::size_t count) {
    for (; std::cmp_less(taken_, count); ++taken_)
      CHECK(walk_.constraint->advance(drafts[static_cast<std::size_t>(taken_)]));
    return *walk_.constraint;
  }

  // The tokens allowed at that point. Rows must be requested in order.
  std::span<const MaskWord> mask(std::span<const TokenId> drafts, std::size_t count) {
    const auto [known, wanted] = std::ranges::mismatch(walk_.path, drafts.first(count));
    const auto shared = static_cast<std::size_t>(known - walk_.path.begin());
    if (count >= walk_.num_rows || shared < count) {  // not known, or computed along another path
      CHECK(shared + 1 >= count && walk_.num_rows >= count);
      walk_.path.assign(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(count));
      walk_.num_rows = count + 1;
      walk_.rows.resize(walk_.num_rows * words_);
      const std::span<MaskWord> row = std::span(walk_.rows).last(words_);
      if (!behind(drafts, count).fill_mask(row)) std::ranges::fill(row, 0);
      num_masks_.fetch_add(1, std::memory_order_relaxed);
    }
    return std::span(walk_.rows).subspan(count * words_, words_);
  }

 private:
  Walk& walk_;
  const std::size_t words_;
  std::atomic<std::int64_t>& num_masks_;
  std::int32_t taken_ = 0;
};

ConstraintSet::ConstraintSet(const TokenConstraintFactory& factory, SequenceId first) {
  walks_.emplace(first, factory.make());
}

ConstraintSet::Walk& ConstraintSet::of(SequenceId id) {
  Walk& walk = standing(id);
  walk.constraint->rollback(static_cast<std::int32_t>(walk.ahead.size()));
  walk.ahead.clear();
  return walk;
}

ConstraintSet::Walk& ConstraintSet::standing(SequenceId id) {
  const auto it = walks_.find(id);
  CHECK(it != walks_.end());
  return it->second;
}

bool ConstraintSet::cut_drafts(Sequence& sequence) {
  if (sequence.draft.empty()) return false;
  TokenConstraint& constraint = *of(sequence.id).constraint;
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

void ConstraintSet::know_next(SequenceId id, std::size_t words) {
  (void)Along(of(id), words, num_masks_).mask({}, 0);
}

std::int32_t ConstraintSet::add_forced(Sequence& sequence, std::int32_t limit, std::int32_t vocab_size) {
  Along along(of(sequence.id), mask_words(vocab_size), num_masks_);
  std::vector<TokenId>& draft = sequence.draft;
  // Row by row, including rows after existing drafts: they are needed for the tokens drawn there.
  for (std::size_t row = 0; row < draft.size(); ++row) (void)along.mask(draft, row);
  std::int32_t added = 0;
  while (added < limit) {
    const TokenId only = forced_token(along.mask(draft, draft.size()), vocab_size);
    if (only < 0) break;
    draft.push_back(only);
    if (along.behind(draft, draft.size()).is_terminated()) {
      draft.pop_back();
      break;
    }
    ++added;
  }
  return added;
}

std::span<const MaskWord> ConstraintSet::fill_masks(SequenceId id, std::span<const TokenId> drafts,
                                                    std::size_t words) {
  Walk& walk = of(id);
  Along along(walk, words, num_masks_);
  const std::size_t wanted = words * (1 + drafts.size());
  for (std::size_t row = 0; row <= drafts.size(); ++row) {
    const std::span<const MaskWord> mask = along.mask(drafts, row);
    const bool dead = std::ranges::all_of(mask, [](MaskWord word) { return word == 0; });
    if (!dead) continue;
    walk.num_rows = row + 1;
    walk.rows.resize(walk.num_rows * words);
    walk.rows.resize(wanted);  // zeros
    break;
  }
  return std::span(walk.rows).first(wanted);
}

void ConstraintSet::judge(SequenceId id, std::span<const TokenId> drafts, bool beam, SequenceResult& result) {
  Walk& walk = of(id);
  TokenConstraint& constraint = *walk.constraint;
  for (std::size_t row = 0;; ++row) {
    SequenceResult& drawn = row == 0 ? result : result.after_drafts[row - 1];
    if (beam || drawn.candidates.size() != 1) return judge_row(constraint, beam, drawn);
    Candidate& only = drawn.candidates.front();
    const bool of_draft = row < drafts.size() && only.token == drafts[row];
    drawn.dead_end = !constraint.advance(only.token);
    CHECK(!of_draft || !drawn.dead_end);
    if (drawn.dead_end) return;
    walk.ahead.push_back(only.token);
    only.ends = constraint.is_terminated();
    if (!of_draft) return;
  }
}

void ConstraintSet::follow(std::span<const Change> changes) {
  for (const Change& change : changes) {
    switch (change.verb) {
      case Verb::fork:
        walks_.emplace(change.child->id, of(change.sequence->id).constraint->fork());
        break;
      case Verb::append: {
        Walk& walk = standing(change.sequence->id);
        if (!walk.ahead.empty() && walk.ahead.front() == change.token)
          walk.ahead.erase(walk.ahead.begin());
        else
          CHECK(of(change.sequence->id).constraint->advance(change.token));
        if (walk.num_rows > kKeptRows) std::vector<MaskWord>().swap(walk.rows);
        walk.num_rows = 0;
        walk.path.clear();
        break;
      }
      case Verb::free:
        walks_.erase(change.sequence->id);
        break;
    }
  }
}

}  // namespace pagoda
