#include "scheduler/admission_order.h"

namespace pagoda {

// By request priority, lower first; ageing by arrivals.
OrderRules priority_rules() {
  return {.rank = [](const OrderRecord& record, std::int64_t num_arrived) {
    return rank_by_priority(record.priority, num_arrived);
  }};
}

}  // namespace pagoda
