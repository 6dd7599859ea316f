#include <memory>

#include "scheduler/preemption_policy.h"

namespace pagoda {
namespace {

// Preempts the latest group, and restores it the cheaper way.
class AutomaticPreemption final : public PreemptionPolicy {
 public:
  bool swaps(const SwapCost& cost, const PreemptionCosts& costs) override {
    return swap_is_cheaper(costs, cost.pages, cost.tokens);
  }
};

}  // namespace

std::unique_ptr<PreemptionPolicy> make_automatic_preemption() {
  return std::make_unique<AutomaticPreemption>();
}

}  // namespace pagoda
