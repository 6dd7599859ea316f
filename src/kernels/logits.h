#pragma once
// Ops on one row of logits [vocab], for the sampler.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace pagoda {

// The first of equal maxima; NaNs are skipped. Index 0 if nothing is above -infinity, -1 for an empty row.
struct LogitMax {
  std::int32_t index = -1;
  float value = 0;
};

// Order for finding the largest: by value, then by lower index.
inline bool better(const LogitMax& a, const LogitMax& b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

LogitMax max_logit(const KernelContext& context, std::span<const float> logits);

// log(sum(exp(logits))), in an order that depends only on the row's length.
float log_sum_exp(const KernelContext& context, std::span<const float> logits);

// The k largest, best first; equal logits in ascending order of index. k is clipped to the row's length.
std::vector<LogitMax> top_logits(const KernelContext& context, std::span<const float> logits, std::int32_t k);

// 1 + the number of logits strictly greater than `value`.
std::int32_t logit_rank(const KernelContext& context, std::span<const float> logits, float value);

}  // namespace pagoda
