#include "decoding/draft_policy.h"

#include <algorithm>

namespace pagoda {
namespace {

constexpr float kFirstChance[DraftHistory::kNumClasses] = {0.3f, 0.5f, 0.8f};
constexpr float kFirstWeight = 2;       // in drafts
constexpr float kForget = 0.98f;        // applied in each step in which a draft could have been made
constexpr double kMargin = 1.25;        // a draft must pay off by more than its cost
constexpr std::int32_t kSureFrom = 12;  // matching tokens

}  // namespace

std::size_t draft_class(std::int32_t num_agreed, std::int32_t prompt_lookup_max) {
  if (num_agreed >= kSureFrom) return 2;
  return num_agreed >= std::min(prompt_lookup_max, kSureFrom) ? 1 : 0;
}

double expect_accepted(DraftHistory& history, std::size_t draft_class) {
  DraftHistory::Class& seen = history.classes[draft_class];
  seen.tried *= kForget;
  seen.accepted *= kForget;
  return static_cast<double>((seen.accepted + kFirstWeight * kFirstChance[draft_class]) /
                             (seen.tried + kFirstWeight));
}

void note_verified(DraftHistory& history, std::int32_t num_tried, std::int32_t num_accepted) {
  DraftHistory::Class& seen = history.classes[history.latest];
  seen.accepted += static_cast<float>(num_accepted);
  seen.tried += static_cast<float>(std::min(num_accepted + 1, num_tried));
}

std::int32_t worthwhile_guesses(double chance, std::int32_t limit, std::int32_t num_decodes,
                                double rows_each) {
  // Tokens per unit of time, in rows: adding a row must raise this ratio.
  const double sequences = std::max(1, num_decodes);
  double tokens = sequences, rows = kStepRows + sequences, right = 1;
  std::int32_t count = 0;
  for (; count < limit; ++count) {
    right *= chance;
    if (right * rows < kMargin * tokens * (1 + rows_each)) break;
    tokens += right;
    rows += 1 + rows_each;
  }
  return count;
}

}  // namespace pagoda
