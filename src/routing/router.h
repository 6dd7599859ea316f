#pragma once
// Router: chooses which of several engines gets a request, from loads, prompts, and each engine's cache
// events. Used for the server's engines (engine/engine_group.h) and for the simulator's replicas. Threads:
// none.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kv_cache/cache_observer.h"
#include "request/request.h"

namespace pagoda {

enum class RouterKind : std::uint8_t {
#define PAGODA_ROUTER(name, flag) name,
#include "routing/routers.def"
#undef PAGODA_ROUTER
};

inline constexpr std::string_view kRouterNames[] = {
#define PAGODA_ROUTER(name, flag) flag,
#include "routing/routers.def"
#undef PAGODA_ROUTER
};

struct ReplicaLoad {
  std::int64_t requests = 0;         // held by the replica
  std::int64_t uncached_tokens = 0;  // sum of RouterChoice::uncached_tokens over these requests
};

struct RouterChoice {
  std::size_t replica = 0;
  // Part of the prompt, as far as known; 0 if the router does not track caches.
  std::int64_t uncached_tokens = 0;
};

class Router {
 public:
  virtual ~Router() = default;
  // `loads`: load of each engine; must not be empty.
  virtual RouterChoice choose(const Request& request, std::span<const ReplicaLoad> loads) = 0;
  // The router's observer for this engine's prefix cache; null: none. Owned by the router.
  virtual CacheObserver* cache_observer(std::size_t /*replica*/) { return nullptr; }
};

// The replica with the fewest requests; ties go to the first.
std::size_t least_loaded(std::span<const ReplicaLoad> loads);

#define PAGODA_ROUTER(name, flag) std::unique_ptr<Router> make_##name##_router();
#include "routing/routers.def"
#undef PAGODA_ROUTER

std::unique_ptr<Router> make_router(RouterKind kind);

}  // namespace pagoda
