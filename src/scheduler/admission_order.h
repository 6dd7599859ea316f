#pragma once
// AdmissionOrder: who of those who wait comes next, and so who is the last to be preempted. It goes by plain
// records and by what it is told, reads no clock and knows no group, so that the simulator, which runs the
// same scheduler, has the same order. It gives each group a rank; the scheduler compares ranks, and arrival
// among equals. Whether the next one fits is not its business: nobody is skipped. Invariants: a rank depends
// on the record and on the calls so far alone; a running group keeps the rank that it was let in with. Unless
// moves(), a rank never changes and only rank() is called. Source: counters per tenant are those of Sheng et
// al., "Fairness in Serving Large Language Models" (OSDI'24). Threads: none; owned by the scheduler.
#include <cstdint>
#include <memory>
#include <string_view>

#include "request/request.h"

namespace pagoda {

enum class SchedulingPolicy { fcfs, priority };

// What an order may go by.
struct OrderRecord {
  std::string_view tenant = {};  // the request's, while it is served
  std::int32_t weight = 1;
  std::int32_t priority = 0;
  WorkKind work = WorkKind::generate;
  std::int64_t num_prompt_tokens = 0, max_output_tokens = 0;
};

OrderRecord order_record(const Request& request);

class AdmissionOrder {
 public:
  virtual ~AdmissionOrder() = default;
  // Lower comes first.
  virtual std::int64_t rank(const OrderRecord& record) const = 0;

  // Whether ranks of those who wait change with what is told here. Constant.
  virtual bool moves() const { return false; }
  virtual void arrived(const OrderRecord&) {}
  virtual void served(const OrderRecord&, std::int64_t /*num_tokens*/) {}  // computed for it in a step
  virtual void left(const OrderRecord&) {}                                 // it has ended, one way or another
};

std::unique_ptr<AdmissionOrder> make_admission_order(SchedulingPolicy policy);

}  // namespace pagoda
