#include "kv_cache/pinned_prefixes.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {

void PinnedPrefixes::add(SequenceId holder, std::span<const TokenId> tokens, std::string_view variant) {
  prefixes_.push_back(
      {.holder = holder, .tokens = {tokens.begin(), tokens.end()}, .variant = std::string(variant)});
}

void PinnedPrefixes::remove(SequenceId holder) {
  CHECK(std::erase_if(prefixes_, [&](const Prefix& prefix) { return prefix.holder == holder; }) == 1);
}

std::optional<PinnedPrefixes::Match> PinnedPrefixes::longest(std::span<const TokenId> tokens,
                                                             std::string_view variant,
                                                             std::int32_t num_tokens, Use use) const {
  std::optional<Match> best;
  for (const Prefix& prefix : prefixes_) {
    if (prefix.variant != variant) continue;
    const std::size_t taken = std::min(prefix.tokens.size(), tokens.size() - 1);
    if (static_cast<std::int32_t>(taken) <= num_tokens || prefix.tokens.size() > tokens.size()) continue;
    if (use == Use::whole && taken != prefix.tokens.size()) continue;
    if (!std::ranges::equal(prefix.tokens, tokens.first(prefix.tokens.size()))) continue;
    num_tokens = static_cast<std::int32_t>(taken);
    best = {.holder = prefix.holder, .num_tokens = num_tokens};
  }
  return best;
}

}  // namespace pagoda
