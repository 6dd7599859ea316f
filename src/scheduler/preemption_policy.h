#pragma once
// PreemptionPolicy: decides which running group is preempted when KV blocks run out, and how its K/V is
// restored (PagedAttention §4.5): from the swap space, or by recomputation. It decides by plain records and
// earlier calls alone and knows no groups; the candidates all come later in the order than the group that
// needs the blocks. The engine measures the costs. Threads: none; owned by the scheduler.
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

// How a policy uses the swap space: if there is any; always (it is required, and a group is recomputed only
// if the swap space is full); or never. Switch over it without a default, so that a new kind does not compile
// until every switch handles it.
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

// In seconds; 0: not measured yet.
struct PreemptionCosts {
  double per_block_copied = 0;
  double per_token_recomputed = 0;
};

// True if moving `blocks` out and in again costs less than recomputing `tokens`.
inline bool swap_is_cheaper(const PreemptionCosts& costs, std::int64_t blocks, std::int64_t tokens) {
  return 2 * costs.per_block_copied * static_cast<double>(blocks) <
         costs.per_token_recomputed * static_cast<double>(tokens);
}

// A running group that can be preempted.
struct PreemptionCandidate {
  std::string_view tenant = {};  // valid while the request is being served
  std::int32_t priority = 0;
  std::int32_t num_sequences = 0;        // unfinished
  std::int64_t num_computed_tokens = 0;  // in the KV cache; shared tokens count once per sequence
  std::int64_t num_output_tokens = 0;    // generated so far
  std::int32_t num_preemptions = 0;      // so far
};

class PreemptionPolicy {
 public:
  virtual ~PreemptionPolicy() = default;

  // Returns the index of the group to preempt. `candidates` is not empty and in admission order, the latest
  // last.
  virtual std::size_t victim(std::span<const PreemptionCandidate> candidates) {
    return candidates.size() - 1;
  }
  // True if the group's K/V moves to the swap space (if there is room) instead of being recomputed. Not
  // called for policies with Recovery::recomputed.
  virtual bool swaps(const SwapCost& cost, const PreemptionCosts& costs) = 0;
};

#define PAGODA_PREEMPTION_POLICY(name, flag, recovery) \
  std::unique_ptr<PreemptionPolicy> make_##name##_preemption();
#include "scheduler/preemption_policies.def"
#undef PAGODA_PREEMPTION_POLICY

std::unique_ptr<PreemptionPolicy> make_preemption_policy(PreemptionMode mode);

}  // namespace pagoda
