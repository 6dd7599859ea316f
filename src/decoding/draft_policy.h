#pragma once
// The number of draft tokens worth computing: those whose probability of acceptance exceeds their share of
// the step's time. A step costs about kStepRows rows for reading the weights, plus one row per token. With
// few sequences a draft is therefore nearly free; with many it costs as much as a token. Acceptance is
// measured per sequence, in classes by the number of matching tokens before the draft. Source: the trade-off
// is that of Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2023), §3.3, with
// measured acceptance. Threads: none.
#include "request/draft_history.h"

namespace pagoda {

// The fixed time of a step, in rows: bench/speculation shows it on the default model.
inline constexpr double kStepRows = 8;

// Class of a draft after `num_agreed` matching tokens; 0 is the least likely to be accepted.
std::size_t draft_class(std::int32_t num_agreed, std::int32_t prompt_lookup_max);

// The probability that the first draft of this class is accepted, and each next one if those before it were.
// Drifts back to the initial value while drafts are skipped, so that they are retried from time to time.
double expect_accepted(DraftHistory& history, std::size_t draft_class);

void note_verified(DraftHistory& history, std::int32_t num_tried, std::int32_t num_accepted);

// Number of drafts worth computing, at most `limit`. `rows_each`: the time to make a draft, in rows.
std::int32_t worthwhile_guesses(double chance, std::int32_t limit, std::int32_t num_decodes,
                                double rows_each = 0);

}  // namespace pagoda
