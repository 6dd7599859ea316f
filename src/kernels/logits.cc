#include "kernels/logits.h"

#include "kernels/reference/reference.h"

namespace pagoda {

LogitMax max_logit(const KernelContext&, std::span<const float> logits) {
  return reference::max_logit(logits);
}
float log_sum_exp(const KernelContext&, std::span<const float> logits) {
  return reference::log_sum_exp(logits);
}
std::vector<LogitMax> top_logits(const KernelContext&, std::span<const float> logits, std::int32_t k) {
  return reference::top_logits(logits, k);
}
std::int32_t logit_rank(const KernelContext&, std::span<const float> logits, float value) {
  return reference::logit_rank(logits, value);
}

}  // namespace pagoda
