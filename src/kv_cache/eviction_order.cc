#include "kv_cache/eviction_order.h"

namespace pagoda {

std::unique_ptr<EvictionOrder> make_eviction_order(Eviction eviction) {
  switch (eviction) {
#define PAGODA_EVICTION_POLICY(name) \
  case Eviction::name:               \
    return make_##name##_eviction();
#include "kv_cache/eviction_policies.def"
#undef PAGODA_EVICTION_POLICY
  }
  return nullptr;
}

}  // namespace pagoda
