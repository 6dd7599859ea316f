#pragma once
// For tests of the KV cache's tiers: texts, and the records that a manager hands to the runner.
#include <numeric>
#include <vector>

#include "kv_cache/paged_kv_manager.h"

namespace pagoda::testing {

// `count` tokens, each one more than the one before.
inline std::vector<TokenId> text(TokenId first, std::size_t count) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

inline TierMoves take_moves(PagedKvManager& kv) {
  TierMoves moves;
  kv.tiering().take(moves);
  kv.inspection().check_invariants();
  return moves;
}

}  // namespace pagoda::testing
