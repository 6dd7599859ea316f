#pragma once
// PreemptionPolicy: which running group gives way where KV blocks are missing, and how it gets its K/V back
// (PagedAttention §4.5): from the swap space, or computed again. It decides by plain records and earlier
// calls alone and knows no group; a step offers it only those that come later in the order than whoever needs
// the room. Who measures the costs is the engine's business. Threads: none; owned by the scheduler.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kv_cache/kv_swap.h"

namespace pagoda {

enum class PreemptionMode : std::uint8_t {
#define PAGODA_PREEMPTION_POLICY(name, flag, recovery) name,
#include "scheduler/preemption_policies.def"
#undef PAGODA_PREEMPTION_POLICY
};

// Whether a policy uses the swap space: where there is one; always, so that there has to be one, and a group
// is recomputed only where it is full; or never. Whoever switches over it does so without a default: a policy
// of another kind does not compile until it is known everywhere.
enum class Recovery : std::uint8_t { either, swapped, recomputed };

struct PreemptionFacts {
  std::string_view flag;
  Recovery recovery;
};

inline constexpr PreemptionFacts kPreemptionPolicies[] = {
#define PAGODA_PREEMPTION_POLICY(name, flag, recovery) {flag, Recovery::recovery},
#include "scheduler/preemption_policies.def"
#undef PAGODA_PREEMPTION_POLICY
};

constexpr const PreemptionFacts& facts(PreemptionMode mode) {
  return kPreemptionPolicies[static_cast<std::size_t>(mode)];
}

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

// A running group that could give way.
struct PreemptionCandidate {
  std::string_view tenant = {};  // the request's, while it is served
  std::int32_t priority = 0;
  std::int32_t num_sequences = 0;        // that have not ended
  std::int64_t num_computed_tokens = 0;  // in the KV cache; what its sequences share counts for each
  std::int64_t num_output_tokens = 0;    // generated so far
  std::int32_t num_preemptions = 0;      // before
};

class PreemptionPolicy {
 public:
  virtual ~PreemptionPolicy() = default;

  // The index of the one that gives way; `candidates` has at least one, the latest in the order comes last.
  virtual std::size_t victim(std::span<const PreemptionCandidate> candidates) {
    return candidates.size() - 1;
  }
  // Whether its K/V moves to the swap space if there is room, or is computed again. Not asked where
  // Recovery::recomputed stands in the row.
  virtual bool swaps(const SwapCost& cost, const PreemptionCosts& costs) = 0;
};

#define PAGODA_PREEMPTION_POLICY(name, flag, recovery) \
  std::unique_ptr<PreemptionPolicy> make_##name##_preemption();
#include "scheduler/preemption_policies.def"
#undef PAGODA_PREEMPTION_POLICY

std::unique_ptr<PreemptionPolicy> make_preemption_policy(PreemptionMode mode);

}  // namespace pagoda
