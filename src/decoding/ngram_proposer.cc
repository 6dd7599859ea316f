#include "decoding/ngram_proposer.h"

#include <algorithm>

#include "decoding/draft_policy.h"

namespace pagoda {
std::optional<NgramMatch> find_ngram(std::span<const TokenId> tokens, std::int32_t min, std::int32_t max,
                                     std::int32_t count) {
  const auto size = static_cast<std::int32_t>(tokens.size());
  const auto at = [&](std::int32_t i) { return tokens[static_cast<std::size_t>(i)]; };
  if (size < 2 || count < 1) return std::nullopt;
  const std::int32_t furthest = std::max(max, kMaxAgreed);
  std::int32_t best = min - 1, follows = -1;
  for (std::int32_t end = size - 1; end >= min && best < furthest; --end) {  // end of the earlier run
    if (at(end - 1) != at(size - 1)) continue;
    std::int32_t agreed = 1;
    while (agreed < std::min(end, furthest) && at(end - 1 - agreed) == at(size - 1 - agreed)) ++agreed;
    if (agreed <= best) continue;
    best = agreed;
    follows = end;
  }
  if (follows < 0) return std::nullopt;
  NgramMatch out;
  out.num_agreed = best;
  out.draft.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t from = follows + i;
    out.draft.push_back(from < size ? at(from) : out.draft[static_cast<std::size_t>(from - size)]);
  }
  return out;
}

void NgramProposer::propose(const SequenceGroup&, Sequence& sequence, std::int32_t limit,
                            std::int32_t num_decodes) {
  if (config_.disable_by_batch_size > 0 && num_decodes >= config_.disable_by_batch_size) return;
  // A draft too short to pay for its cost is not looked up.
  limit = std::min({limit, config_.num_speculative_tokens, worthwhile_guesses(1, limit, num_decodes)});
  if (limit < 1) return;
  auto match = find_ngram(sequence.tokens, config_.prompt_lookup_min, config_.prompt_lookup_max, limit);
  if (!match) return;
  const std::size_t of = draft_class(match->num_agreed, config_.prompt_lookup_max);
  const double chance = expect_accepted(sequence.draft_history, of);
  const std::int32_t count = worthwhile_guesses(chance, limit, num_decodes);
  if (count < 1) return;
  sequence.draft = std::move(match->draft);
  sequence.draft.resize(static_cast<std::size_t>(count));
  sequence.draft_history.latest = static_cast<std::uint8_t>(of);
}

void NgramProposer::verified(Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted) {
  note_verified(sequence.draft_history, num_tried, num_accepted);
}

}  // namespace pagoda
