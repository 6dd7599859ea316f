#include "scheduler/admission_order.h"

namespace pagoda {
namespace {

class FirstComeFirstServed final : public AdmissionOrder {
 public:
  std::int64_t rank(const OrderRecord&) const override { return 0; }
};

class ByPriority final : public AdmissionOrder {
 public:
  std::int64_t rank(const OrderRecord& record) const override { return record.priority; }
};

}  // namespace

OrderRecord order_record(const Request& request) {
  return {.tenant = request.tenant,
          .weight = request.weight,
          .priority = request.priority,
          .work = request.work.kind,
          .num_prompt_tokens = static_cast<std::int64_t>(request.prompt_token_ids.size()),
          .max_output_tokens = request.sampling.max_tokens};
}

std::unique_ptr<AdmissionOrder> make_admission_order(SchedulingPolicy policy) {
  if (policy == SchedulingPolicy::priority) return std::make_unique<ByPriority>();
  return std::make_unique<FirstComeFirstServed>();
}

}  // namespace pagoda
