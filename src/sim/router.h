#pragma once
// Router: which of several engines gets a request. It sees loads and prompts, not the engines.
// Threads: none.
#include <memory>
#include <span>

#include "request/request.h"
#include "sim/simulation.h"

namespace pagoda {

class Router {
 public:
  virtual ~Router() = default;
  // `loads`: requests that each engine holds; at least one.
  virtual std::size_t choose(const Request& request, std::span<const std::int64_t> loads) = 0;
};

std::unique_ptr<Router> make_router(RouterKind kind);

}  // namespace pagoda
