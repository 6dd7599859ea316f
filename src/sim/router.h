#pragma once
// Router: which of several engines gets a request. It sees loads and prompts, and what the engines tell of
// their caches.
//
// KvAware follows what vllm-router 0.1.17 does under `--policy kv_aware`, as found by trying: least of
//   (prompt tokens not cached there + those of requests under way) * (1 + requests under way).
// Threads: none.
#include <memory>
#include <span>

#include "kv_cache/cache_observer.h"
#include "request/request.h"
#include "sim/simulation.h"

namespace pagoda {

struct ReplicaLoad {
  std::int64_t requests = 0;         // that it holds
  std::int64_t uncached_tokens = 0;  // RouterChoice's, of these
};

struct RouterChoice {
  std::size_t replica = 0;
  std::int64_t uncached_tokens = 0;  // of the prompt, as far as the router knows; 0: it does not ask
};

class Router {
 public:
  virtual ~Router() = default;
  // `loads`: of each engine; at least one.
  virtual RouterChoice choose(const Request& request, std::span<const ReplicaLoad> loads) = 0;
  // Who is to be told what this engine's prefix cache holds; null: nobody. The router's own.
  virtual CacheObserver* cache_observer(std::size_t /*replica*/) { return nullptr; }
};

std::unique_ptr<Router> make_router(RouterKind kind);

}  // namespace pagoda
