#pragma once
// Router: which of several engines gets a request. It sees loads and prompts, and each engine's cache events.
// The server's engines (engine/engine_group.h) and the simulator's replicas go by the same ones. Threads:
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
  std::int64_t requests = 0;         // that it holds
  std::int64_t uncached_tokens = 0;  // RouterChoice's, of these
};

struct RouterChoice {
  std::size_t replica = 0;
  std::int64_t uncached_tokens = 0;  // part of the prompt, as far as the router knows; 0: it does not ask
};

class Router {
 public:
  virtual ~Router() = default;
  // `loads`: of each engine; at least one.
  virtual RouterChoice choose(const Request& request, std::span<const ReplicaLoad> loads) = 0;
  // An observer of this engine's prefix cache; null: none. The router's own.
  virtual CacheObserver* cache_observer(std::size_t /*replica*/) { return nullptr; }
};

// The replica with the fewest requests; the first of several.
std::size_t least_loaded(std::span<const ReplicaLoad> loads);

#define PAGODA_ROUTER(name, flag) std::unique_ptr<Router> make_##name##_router();
#include "routing/routers.def"
#undef PAGODA_ROUTER

std::unique_ptr<Router> make_router(RouterKind kind);

}  // namespace pagoda
