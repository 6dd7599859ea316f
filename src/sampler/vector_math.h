#pragma once
// The loops of sampling that touch every logit: maxima, exponentials with sums, masks. Each is compiled for
// every CPU level from one source with a fixed 16-lane order, so that all levels give the same bits.
#include <cstdint>

#include "kernels/backend.h"

namespace pagoda {

inline constexpr std::int64_t kMaximaBlock = 64;
inline constexpr std::int64_t kSumBlock = 1024;

inline std::int64_t num_maxima_blocks(std::int64_t count) {
  return (count + kMaximaBlock - 1) / kMaximaBlock;
}
inline std::int64_t num_sum_blocks(std::int64_t count) { return (count + kSumBlock - 1) / kSumBlock; }

// maxima[b] = the largest of x[b * kMaximaBlock ...]; NaN counts as -infinity.
void block_maxima(CpuLevel level, const float* x, std::int64_t count, float* maxima);

// weights[i] = exp((x[i] - shift) * scale), zero below exp(-87); block_sums[b] = the sum of block b.
// Needs x[i] <= shift, shift finite and scale > 0.
void exponentials(CpuLevel level, const float* x, std::int64_t count, float shift, float scale,
                  float* weights, float* block_sums);

// to[i] = from[i] if bit i % 32 of words[i / 32] is set, otherwise -infinity.
void masked_copy(CpuLevel level, const float* from, const std::uint32_t* words, std::int64_t count,
                 float* to);

}  // namespace pagoda
