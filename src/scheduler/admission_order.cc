#include "scheduler/admission_order.h"

#include <algorithm>

#include "scheduler/fair_order.h"

namespace pagoda {
namespace {

class FirstComeFirstServed final : public AdmissionOrder {
 public:
  std::int64_t arrived(const OrderRecord&, OrderAccount&) override { return 0; }
};

class ByPriority final : public AdmissionOrder {
 public:
  std::int64_t arrived(const OrderRecord& record, OrderAccount& account) override {
    return account.rank = rank_by_priority(record.priority, ++num_arrived_);
  }

 private:
  std::int64_t num_arrived_ = 0;
};

}  // namespace

OrderRecord order_record(const Request& request) {
  return {.tenant = request.tenant,
          .weight = request.weight,
          .priority = request.priority,
          .work = request.work.kind,
          .num_prompt_tokens = static_cast<std::int64_t>(request.prompt_token_ids.size()),
          .max_output_tokens = request.sampling.max_tokens,
          .num_sequences = request.sampling.use_beam_search
                               ? request.sampling.width()
                               : std::max(request.sampling.n, request.sampling.best_of)};
}

std::int64_t rank_by_priority(std::int32_t priority, std::int64_t num_arrived) {
  constexpr std::int64_t kPlaces = 1024;
  return kPlaces * priority + num_arrived;
}

std::unique_ptr<AdmissionOrder> make_admission_order(SchedulingPolicy policy) {
  if (policy == SchedulingPolicy::priority) return std::make_unique<ByPriority>();
  if (policy == SchedulingPolicy::fair) return std::make_unique<FairOrder>();
  return std::make_unique<FirstComeFirstServed>();
}

}  // namespace pagoda
