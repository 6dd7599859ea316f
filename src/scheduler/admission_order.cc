#include "scheduler/admission_order.h"

#include <algorithm>

namespace pagoda {

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

std::unique_ptr<AdmissionOrder> make_admission_order(SchedulingPolicy policy) {
  switch (policy) {
#define PAGODA_SCHEDULING_POLICY(name, queue) \
  case SchedulingPolicy::name:                \
    return make_##name##_order();
#include "scheduler/scheduling_policies.def"
#undef PAGODA_SCHEDULING_POLICY
  }
  return nullptr;
}

}  // namespace pagoda
