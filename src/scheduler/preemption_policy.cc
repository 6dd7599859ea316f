#include "scheduler/preemption_policy.h"

namespace pagoda {

std::unique_ptr<PreemptionPolicy> make_preemption_policy(PreemptionMode mode) {
  switch (mode) {
#define PAGODA_PREEMPTION_POLICY(name, flag, recovery) \
  case PreemptionMode::name:                           \
    return make_##name##_preemption();
#include "scheduler/preemption_policies.def"
#undef PAGODA_PREEMPTION_POLICY
  }
  return nullptr;
}

}  // namespace pagoda
