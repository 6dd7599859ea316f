#include <memory>

#include "scheduler/admission_order.h"
#include "scheduler/fair_order.h"

namespace pagoda {
namespace {

// The requests' priorities, lower first; ageing by arrivals.
class PriorityOrder final : public AdmissionOrder {
 public:
  std::int64_t arrived(const OrderRecord& record, OrderAccount& account) override {
    return account.rank = rank_by_priority(record.priority, ++num_arrived_);
  }

 private:
  std::int64_t num_arrived_ = 0;
};

}  // namespace

std::int64_t rank_by_priority(std::int32_t priority, std::int64_t num_arrived) {
  constexpr std::int64_t kPlaces = 1024;
  return kPlaces * priority + num_arrived;
}

std::unique_ptr<AdmissionOrder> make_priority_order() { return std::make_unique<PriorityOrder>(); }

}  // namespace pagoda
