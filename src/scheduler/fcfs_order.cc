#include <memory>

#include "scheduler/admission_order.h"

namespace pagoda {
namespace {

// First come, first served.
class FcfsOrder final : public AdmissionOrder {
 public:
  std::int64_t arrived(const OrderRecord&, OrderAccount&) override { return 0; }
};

}  // namespace

std::unique_ptr<AdmissionOrder> make_fcfs_order() { return std::make_unique<FcfsOrder>(); }

}  // namespace pagoda
