#include "scheduler/admission_order.h"

#include <algorithm>

namespace pagoda {
namespace {

class RankedOrder final : public AdmissionOrder {
 public:
  explicit RankedOrder(const OrderRules& rules) : rank_(rules.rank) {}
  std::int64_t arrived(const OrderRecord& record, OrderAccount& account) override {
    return account.rank = rank_(record, ++num_arrived_);
  }

 private:
  std::int64_t (*const rank_)(const OrderRecord&, std::int64_t);
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

OrderRules rules(SchedulingPolicy policy) {
  switch (policy) {
#define PAGODA_SCHEDULING_POLICY(name, queue) \
  case SchedulingPolicy::name:                \
    return name##_rules();
#include "scheduler/scheduling_policies.def"
#undef PAGODA_SCHEDULING_POLICY
  }
  return {};
}

std::unique_ptr<AdmissionOrder> make_admission_order(SchedulingPolicy policy) {
  const OrderRules of_policy = rules(policy);
  if (of_policy.make != nullptr) return of_policy.make();
  return std::make_unique<RankedOrder>(of_policy);
}

std::int64_t rank_by_priority(std::int32_t priority, std::int64_t num_arrived) {
  constexpr std::int64_t kPlaces = 1024;
  return kPlaces * priority + num_arrived;
}

}  // namespace pagoda
