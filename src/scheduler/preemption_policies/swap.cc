#include <memory>

#include "scheduler/preemption_policy.h"

namespace pagoda {
namespace {

// Preempts the latest group, and recomputes it only if the swap space is full.
class SwapPreemption final : public PreemptionPolicy {
 public:
  bool swaps(const SwapCost&, const PreemptionCosts&) override { return true; }
};

}  // namespace

std::unique_ptr<PreemptionPolicy> make_swap_preemption() { return std::make_unique<SwapPreemption>(); }

}  // namespace pagoda
