#pragma once
// How a preempted group gets its K/V back (PagedAttention §4.5): from the swap space, or computed again.
// Plain data and one decision; who is preempted is the scheduler's business, and who measures the costs
// the engine's.
#include <cstdint>

namespace pagoda {

enum class PreemptionMode : std::uint8_t {
  automatic,  // whichever costs less, group by group
  swap,       // recomputed only where the swap space is full
  recompute,
};

// Seconds; 0: not measured yet.
struct PreemptionCosts {
  double per_block_copied = 0;
  double per_token_recomputed = 0;
};

// Whether moving `blocks` out and in again costs less than computing `tokens` again.
inline bool swap_is_cheaper(const PreemptionCosts& costs, std::int64_t blocks, std::int64_t tokens) {
  return 2 * costs.per_block_copied * static_cast<double>(blocks) <
         costs.per_token_recomputed * static_cast<double>(tokens);
}

}  // namespace pagoda
