// Processes one row of logits at a time, on the calling thread: a batch is spread over threads by rows.
#include "kernels/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/level.h"
#include "kernels/cpu/rows.h"
#include "kernels/reference/reference.h"

namespace pagoda {

LogitMax max_logit(const KernelContext& context, std::span<const float> logits) {
  if (context.backend == Backend::reference || logits.empty()) return reference::max_logit(logits);
  const cpu::RowKernels& kernels = cpu::kernels_of<cpu::RowKernels>(context.level);
  const auto n = static_cast<std::int64_t>(logits.size());
  const float largest = kernels.max(logits.data(), n);
  // The first element above everything smaller than the maximum is the first maximum.
  const float below = std::nextafter(largest, -std::numeric_limits<float>::infinity());
  const std::int64_t index = kernels.find_greater(logits.data(), 0, n, below);
  // Not found if every logit is -infinity, or there are NaNs.
  if (index == n) return reference::max_logit(logits);
  return {static_cast<std::int32_t>(index), largest};
}

float log_sum_exp(const KernelContext& context, std::span<const float> logits) {
  if (context.backend == Backend::reference || logits.empty()) return reference::log_sum_exp(logits);
  const cpu::RowKernels& kernels = cpu::kernels_of<cpu::RowKernels>(context.level);
  const auto n = static_cast<std::int64_t>(logits.size());
  const float largest = kernels.max(logits.data(), n);
  if (std::isinf(largest)) return largest;
  constexpr std::int64_t kChunk = 4096;  // summed in float; the chunks are summed in double
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += kChunk) {
    sum += kernels.sum_exp(logits.data() + i, std::min(kChunk, n - i), largest);
  }
  return static_cast<float>(largest + std::log(sum));
}

std::vector<LogitMax> top_logits(const KernelContext& context, std::span<const float> logits,
                                 std::int32_t k) {
  const auto n = static_cast<std::int64_t>(logits.size());
  if (context.backend == Backend::reference || k <= 0 || k > n / 16) return reference::top_logits(logits, k);
  const cpu::RowKernels& kernels = cpu::kernels_of<cpu::RowKernels>(context.level);
  // A heap of the best logits so far, with the worst of them on top; values not above it are skipped 16 at a
  // time.
  std::vector<LogitMax> heap;
  heap.reserve(static_cast<std::size_t>(k));
  for (std::int64_t i = 0; i < k; ++i) {
    heap.push_back({static_cast<std::int32_t>(i), logits[static_cast<std::size_t>(i)]});
  }
  std::make_heap(heap.begin(), heap.end(), better);
  for (std::int64_t i = k; (i = kernels.find_greater(logits.data(), i, n, heap.front().value)) < n; ++i) {
    std::pop_heap(heap.begin(), heap.end(), better);
    heap.back() = {static_cast<std::int32_t>(i), logits[static_cast<std::size_t>(i)]};
    std::push_heap(heap.begin(), heap.end(), better);
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  return heap;
}

std::int32_t logit_rank(const KernelContext& context, std::span<const float> logits, float value) {
  if (context.backend == Backend::reference) return reference::logit_rank(logits, value);
  const std::int64_t above =
      cpu::kernels_of<cpu::RowKernels>(context.level)
          .count_greater(logits.data(), static_cast<std::int64_t>(logits.size()), value);
  return 1 + static_cast<std::int32_t>(above);
}

}  // namespace pagoda
