#pragma once
// Products of up to kFewRows.rows rows (used up to kMostFewRows; linear_several is for more). The weights are
// read once, and the speed of reading them is all that matters. Each warp has eight rows of the weights and
// its own ring of stages, which it fills and empties without waiting for other warps. The block's rows of x
// are in shared memory, rounded to bfloat16: all of k at once if it fits (kFewInputBytes), otherwise one part
// after the other, with the only barriers between them. The chain of an element's sum is that of
// linear_tiles.cuh. grid: (tiles of rows, tiles of n); block: warps of the tile; shared: few_shared_bytes().
//
// For such a product a launch costs more than the arithmetic. So neighbouring ops can be part of it, with the
// same bits: each block computes the norm of its rows itself (InputNorm), the function of the output is
// applied to the sums in place (OutputFunction), and matrices of several types share a launch
// (linear_few_parts).
#include "device/kernels/few_pairs.cuh"
#include "device/kernels/rows.cuh"

namespace pagoda::device::kernels {

inline constexpr int kFewThreads = product_threads(kFewRows);

// A row's sum as in a separately launched norm (whole_rows() in kernel_launches.cc).
template <RowTerms terms>
__device__ __forceinline__ float norm_sum(const float* x, int width, float mean, float* shared) {
  constexpr int kWide = kWideRowThreads > kFewThreads ? kWideRowThreads / kFewThreads : 1,
                kNarrow = kRowThreads > kFewThreads ? kRowThreads / kFewThreads : 1;
  return width >= kWideRow ? row_sum<terms, kWide>(x, width, mean, kWideRowThreads, shared)
                           : row_sum<terms, kNarrow>(x, width, mean, kRowThreads, shared);
}

// Writes a mean and a scale for each of the block's rows to shared memory, whose first kFewSums floats are
// scratch space. Called by all threads; ends with a barrier.
template <class Lines>
__device__ __forceinline__ void find_moments(const LinearArgs& args, const InputNorm& norm,
                                             const Lines& lines, int count, float* shared) {
  for (int line = 0; line < count; ++line) {
    float mean = 0;
    if (norm.kind == InputNorm::Kind::layer) {
      mean = norm_sum<RowTerms::values>(lines.x(line), args.k, 0, shared) / static_cast<float>(args.k);
      __syncthreads();
    }
    const float squares = norm_sum<RowTerms::squares>(lines.x(line), args.k, mean, shared);
    if (threadIdx.x == 0) {
      shared[kFewSums + 2 * line] = mean;
      shared[kFewSums + 2 * line + 1] = scale_of_norm(squares, args.k, norm.eps);
    }
    __syncthreads();
  }
}

// Normalises four elements of a row, from `first` of its k on.
__device__ __forceinline__ void normalize(const InputNorm& norm, const float* moments, int first,
                                          FourFloats& x) {
  FourFloats weight = {{1, 1, 1, 1}};
  if (norm.weight != nullptr) weight = load_whole<FourFloats>(norm.weight + first);
#pragma unroll
  for (int i = 0; i < 4; ++i) x.at[i] = normalized(x.at[i], moments[0], moments[1], weight.at[i]);
  if (norm.bias == nullptr) return;
  const auto bias = load_whole<FourFloats>(norm.bias + first);
#pragma unroll
  for (int i = 0; i < 4; ++i) x.at[i] = x.at[i] + bias.at[i];
}

// Rounds `depth` elements of the block's rows, from `first_k` on, into shared memory, or copies rounded ones;
// elements beyond k are zero. `moments`: written by find_moments(). Called by all threads, between barriers.
template <class Chain, class Lines>
__device__ __forceinline__ void round_inputs(const LinearArgs& args, const InputNorm& norm,
                                             const float* moments, const Lines& lines, int count, int first_k,
                                             int depth, int pitch, unsigned char* inputs) {
  const int chunks = depth / 8;
  for (int line = 0; line < count; ++line) {
    const float* const x = lines.x(line) + first_k;
    const float factor = lines.factor(line);
#pragma unroll 4
    for (int chunk = static_cast<int>(threadIdx.x); chunk < chunks; chunk += kFewThreads) {
      const bool there = first_k + 8 * chunk < args.k;
      FourWords words = {};
      if (!Lines::kWeighed && args.rounded != nullptr) {
        if (there) words = load_whole<FourWords>(lines.rounded(line) + first_k + 8 * chunk);
      } else {
        FourFloats halves[2] = {};
#pragma unroll
        for (int half = 0; there && half < 2; ++half) {
          const int at = 8 * chunk + 4 * half;
          halves[half] = load_whole<FourFloats>(x + at);
          if (norm.kind != InputNorm::Kind::none)
            normalize(norm, moments + 2 * line, first_k + at, halves[half]);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* const pair = halves[j / 2].at + 2 * (j % 2);
          words.at[j] = Lines::kWeighed ? pack(pair[0] * factor, pair[1] * factor) : pack(pair[0], pair[1]);
        }
      }
      store_whole(inputs + Chain::input_place(line, chunk, pitch), words);
    }
  }
}

// y = f(sum + bias). A lane has two columns of two rows; for gated products, the values of up are two lanes
// after their gates.
template <class T, class Lines>
__device__ __forceinline__ void store_function(const LinearArgs& args, const OutputFunction& output,
                                               const Lines& lines, int first_n,
                                               const ProductSums<T, kFewRows>& sums) {
  const int lane = static_cast<int>(threadIdx.x % 32), place = 2 * (lane % 4);
  const bool gated_one = output.gated != 0 && place >= 4;
  const int first = first_n + (gated_one ? place - 4 : place);
  float values[4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float bias = 0;
    if (args.bias != nullptr && first + i < args.n) bias = args.bias[(gated_one ? args.n : 0) + first + i];
#pragma unroll
    for (int h = 0; h < 2; ++h) values[2 * h + i] = sums.at[0][0][2 * h + i] + bias;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float other = __shfl_xor_sync(kAllLanes, values[i], 2);
    values[i] = output.gated != 0 ? gated(output.function, values[i], other)
                                  : function_of(output.function, values[i]);
  }
  if (gated_one) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int line = 8 * h + lane / 4;
    if (line >= lines.count()) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (first + i < args.n) lines.y(line)[first + i] = values[2 * h + i];
  }
}

// A block's rows of a batch, and no more.
template <class T>
struct FewLines : BatchLines<few_block_rows(kGroupBytes<T>)> {
  using Lines = BatchLines<few_block_rows(kGroupBytes<T>)>;
  using Lines::Lines;
  __device__ __forceinline__ int count() const {
    return Lines::count() < Lines::kMost ? Lines::count() : Lines::kMost;
  }
};

// `lines` defines the rows, `tile` the part of n, args everything else. The first copies of weights begin
// before earlier kernels have ended.
template <class T, class Lines>
__device__ __forceinline__ void linear_few(const LinearArgs& args, const InputNorm& norm,
                                           const OutputFunction& output, const Lines& lines, int tile) {
  let_next_begin();
  using Sizes = FewSizes<T>;
  constexpr int kDepth = Sizes::kDepth;
  PAGODA_SHARED(unsigned char, shared);
  unsigned char* const inputs = shared;
  // Broadcast from a lane, so that the compiler knows that all lanes take the same branches.
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / 32), 0);
  const int count = lines.count();
  unsigned char* const rings = shared + few_input_bytes(kGroupBytes<T>, count, args.k);
  auto* const moments = reinterpret_cast<float*>(rings + kFewRows.warps_of_columns * Sizes::kRingBytes);
  const int first_n = (tile * kFewRows.warps_of_columns + warp) * few_columns(output);
  const int stages = (args.k + kDepth - 1) / kDepth;
  // Stages of x that are held at once.
  const int fit = kFewInputBytes / (2 * kDepth) / count, at_once = fit < stages ? fit : stages;
  const int pitch = input_pitch<T>(at_once);
  const bool has_work = first_n < args.n;
  FewRing<T> ring = {FewCopies<T>(args, output, first_n), rings + warp * Sizes::kRingBytes, stages, has_work};
  for (int i = 0; i < kFewRows.stages; ++i) ring.copy(i);
  wait_for_earlier();  // until here only weights are read
  using RowScales = std::conditional_t<Lines::kScaled, InputScales<Sizes::kChains>, NoInputScales>;
  using Chain = std::conditional_t<kFloats8<T> && Lines::kMost <= kPairedRows, PairedChain<T>,
                                   FewChain<T, RowScales, Lines::kMost>>;
  Chain chain(args, output, first_n, inputs, Chain::line_of_lane(count), pitch);
  if constexpr (Lines::kScaled) chain.of_rows.find(lines, count);
  if (norm.kind != InputNorm::Kind::none) find_moments(args, norm, lines, count, moments);
  for (int first = 0; first < stages; first += at_once) {
    if (first > 0) __syncthreads();  // the previous part is no longer read
    round_inputs<Chain>(args, norm, moments + kFewSums, lines, count, first * kDepth, at_once * kDepth, pitch,
                        inputs);
    __syncthreads();
    if (has_work) chain.multiply(ring, first, first + at_once < stages ? first + at_once : stages);
  }
  if (!has_work) return;
  const ProductSums<T, kFewRows>& all = chain.finish();
  if (output.is_there != 0)
    store_function(args, output, lines, first_n, all);
  else if (has_pairs(args))
    store_sums<true>(args, lines, 0, first_n, all);
  else
    store_sums<false>(args, lines, 0, first_n, all);
}

#define PAGODA_FEW_KERNEL(name, T)                                                          \
  __global__ void __launch_bounds__(kFewThreads, 2) linear_few_##name(FewLinearArgs args) { \
    linear_few<T>(args.product, args.norm, args.output, FewLines<T>(args.product),          \
                  static_cast<int>(blockIdx.y));                                            \
  }
PAGODA_FEW_KERNEL(bf16, Bf16)
PAGODA_FEW_KERNEL(q4, Quantized4)
PAGODA_FEW_KERNEL(q8, Quantized8)
PAGODA_FEW_KERNEL(q4_k, Quantized4K)
PAGODA_FEW_KERNEL(q5_k, Quantized5K)
PAGODA_FEW_KERNEL(q6_k, Quantized6K)
PAGODA_FEW_KERNEL(fp8, Float8)
PAGODA_FEW_KERNEL(fp8_blocks, Float8Blocks)
PAGODA_FEW_KERNEL(mxfp4, Float4)
PAGODA_FEW_KERNEL(nvfp4, Float4Scaled)
#undef PAGODA_FEW_KERNEL

template <class T>
__device__ __forceinline__ void multiply_part(const LinearPartsArgs& args, const LinearPart& part, int tile) {
  LinearArgs product = args.all.product;
  product.weight = part.weight;
  product.bias = part.bias;
  product.n = part.n;
  product.y += part.first_column;
  linear_few<T>(product, args.all.norm, args.all.output, FewLines<T>(product), tile - part.first_tile);
}

// Likewise, where each block works on the part to which its tile belongs. No part is gated, or has 8-bit
// floats (whose registers every part would need) or 4-bit ones.
__global__ void __launch_bounds__(kFewThreads, 2) linear_few_parts(LinearPartsArgs args) {
  let_next_begin();
  const int tile = static_cast<int>(blockIdx.y);
  LinearPart part = args.parts[0];
#pragma unroll
  for (int i = 1; i < kMostParts; ++i)
    if (i < args.count && tile >= args.parts[i].first_tile) part = args.parts[i];
  switch (part.tile_element) {
    case 0:
      return multiply_part<Bf16>(args, part, tile);
    case 1:
      return multiply_part<Quantized4>(args, part, tile);
    case 2:
      return multiply_part<Quantized8>(args, part, tile);
    case 3:
      return multiply_part<Quantized4K>(args, part, tile);
    case 4:
      return multiply_part<Quantized5K>(args, part, tile);
    case 5:
      return multiply_part<Quantized6K>(args, part, tile);
  }
}

}  // namespace pagoda::device::kernels
