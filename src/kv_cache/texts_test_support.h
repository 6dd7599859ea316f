#pragma once
// For tests of KV managers: texts, and what stands for a state of theirs.
#include <cstdint>
#include <numeric>
#include <vector>

#include "request/ids.h"

namespace pagoda::testing {

// `count` tokens from `first` on, each one more than the one before.
inline std::vector<TokenId> counted(std::size_t count, TokenId first = 0) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// The state after `count` tokens: it depends on all of them and on their order.
inline TokenId state_after(const std::vector<TokenId>& tokens, std::size_t count) {
  std::uint32_t digest = 1;
  for (std::size_t i = 0; i < count; ++i) digest = digest * 31 + static_cast<std::uint32_t>(tokens[i]) + 1;
  return static_cast<TokenId>(digest & 0xffffff);
}

}  // namespace pagoda::testing
