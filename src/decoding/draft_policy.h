#pragma once
// How many draft tokens are worth computing: those whose chance to be right is above their share of the
// step's time. A step takes about as long as kStepRows rows, for the weights that it reads whatever it
// computes, and a row for each token; so beside few sequences a draft is nearly free, and beside many it
// takes a token's whole time. The chance is measured on the sequence itself, in classes of how many tokens
// agreed before the draft.
// Source: the trade-off is that of Leviathan et al., "Fast Inference from Transformers via Speculative
// Decoding" (2023), §3.3, with measured acceptance.
// Threads: none.
#include "request/draft_history.h"

namespace pagoda {

// The fixed time of a step, in rows: bench/speculation shows it on the default model.
inline constexpr double kStepRows = 8;

// Class of a draft after `num_agreed` tokens; 0 speaks least for it.
std::size_t draft_class(std::int32_t num_agreed, std::int32_t prompt_lookup_max);

// The chance that the first draft of this class is right; and the next one, if it was. Drifts back to where
// it began as drafts are passed over, so that they are tried again now and then.
double expect_accepted(DraftHistory& history, std::size_t draft_class);

void note_verified(DraftHistory& history, std::int32_t num_tried, std::int32_t num_accepted);

// At most `limit`.
std::int32_t worthwhile_guesses(double chance, std::int32_t limit, std::int32_t num_decodes);

}  // namespace pagoda
