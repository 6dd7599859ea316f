#pragma once
// For tests of the KV cache's tiers: token sequences, and the records that a manager passes to the runner.
#include <numeric>
#include <vector>

#include "kv_cache/paged_kv_manager.h"

namespace pagoda::testing {

// `count` consecutive tokens from `first` on.
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
