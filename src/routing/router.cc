#include "routing/router.h"

#include <algorithm>

namespace pagoda {

std::size_t least_loaded(std::span<const ReplicaLoad> loads) {
  return static_cast<std::size_t>(std::ranges::min_element(loads, {}, &ReplicaLoad::requests) -
                                  loads.begin());
}

std::unique_ptr<Router> make_router(RouterKind kind) {
  switch (kind) {
#define PAGODA_ROUTER(name, flag) \
  case RouterKind::name:          \
    return make_##name##_router();
#include "routing/routers.def"
#undef PAGODA_ROUTER
  }
  return nullptr;
}

}  // namespace pagoda
