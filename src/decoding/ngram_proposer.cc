#include "decoding/ngram_proposer.h"

#include <algorithm>

#include "base/strings.h"
#include "decoding/draft_policy.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMaxGuesses = 64, kMaxNgram = 1024;

Status refuse_guesses(std::string_view field, std::string_view problem) {
  return invalid_argument(concat("'", field, "' ", problem)).with_param(std::string(field));
}

}  // namespace

Status validate(const SpeculativeConfig& config) {
  if (config.num_speculative_tokens < 1 || config.num_speculative_tokens > kMaxGuesses)
    return refuse_guesses("num_speculative_tokens", concat("must be from 1 to ", kMaxGuesses));
  if (config.prompt_lookup_max < 1 || config.prompt_lookup_max > kMaxNgram)
    return refuse_guesses("prompt_lookup_max", concat("must be from 1 to ", kMaxNgram));
  if (config.prompt_lookup_min < 1 || config.prompt_lookup_min > config.prompt_lookup_max)
    return refuse_guesses("prompt_lookup_min", "must be from 1 to prompt_lookup_max");
  if (config.disable_by_batch_size < 0)
    return refuse_guesses("disable_by_batch_size", "must not be negative");
  return ok_status();
}

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
