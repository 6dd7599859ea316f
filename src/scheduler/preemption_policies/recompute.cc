#include <memory>

#include "scheduler/preemption_policy.h"

namespace pagoda {
namespace {

// Preempts the latest group, and recomputes it.
class RecomputePreemption final : public PreemptionPolicy {
 public:
  bool swaps(const SwapCost&, const PreemptionCosts&) override { return false; }
};

}  // namespace

std::unique_ptr<PreemptionPolicy> make_recompute_preemption() {
  return std::make_unique<RecomputePreemption>();
}

}  // namespace pagoda
