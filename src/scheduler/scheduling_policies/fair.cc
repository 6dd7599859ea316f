#include "scheduler/fair_order.h"

namespace pagoda {

// Turns between tenants; within a tenant, by request priority.
OrderRules fair_rules() {
  return {.rank = [](const OrderRecord& record,
                     std::int64_t num_arrived) { return rank_by_priority(record.priority, num_arrived); },
          .charge = fair_charge,
          .make = []() -> std::unique_ptr<AdmissionOrder> { return std::make_unique<FairOrder>(); }};
}

}  // namespace pagoda
