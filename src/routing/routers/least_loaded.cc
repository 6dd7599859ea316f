// The replica with the fewest requests.
#include "routing/router.h"

namespace pagoda {
namespace {

class LeastLoaded final : public Router {
 public:
  RouterChoice choose(const Request&, std::span<const ReplicaLoad> loads) override {
    return {.replica = least_loaded(loads)};
  }
};

}  // namespace

std::unique_ptr<Router> make_least_loaded_router() { return std::make_unique<LeastLoaded>(); }

}  // namespace pagoda
