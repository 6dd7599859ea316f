// Every replica in turn.
#include "routing/router.h"

namespace pagoda {
namespace {

class RoundRobin final : public Router {
 public:
  RouterChoice choose(const Request&, std::span<const ReplicaLoad> loads) override {
    return {.replica = next_++ % loads.size()};
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Router> make_round_robin_router() { return std::make_unique<RoundRobin>(); }

}  // namespace pagoda
