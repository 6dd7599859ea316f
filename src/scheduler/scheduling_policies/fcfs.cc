#include "scheduler/admission_order.h"

namespace pagoda {

// First come, first served.
OrderRules fcfs_rules() { return {}; }

}  // namespace pagoda
