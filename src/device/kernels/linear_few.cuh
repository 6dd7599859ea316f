#pragma once
// Products of up to kFewRows.rows rows: the weights pass by once, and how fast they come is all that counts.
// Each warp has eight rows of the weights and a ring of stages of its own, which it fills and empties without
// waiting for another warp; the block's rows of x lie in shared memory, rounded to bfloat16, all of k at once
// where it fits (kFewInputBytes), else a part after the other, which are the only barriers. The chain of an
// element's sum is linear_tiles.cuh's. grid: (tiles of rows, tiles of n); block: warps of the tile; shared:
// few_shared_bytes().
#include "device/kernels/linear_tiles.cuh"

namespace pagoda::device::kernels {

inline constexpr int kFewThreads = product_threads(kFewRows);

template <class T>
struct FewSizes {
  static constexpr int kLines = 8;  // rows of weights of a warp
  static constexpr int kPieces = product_pieces(kFewRows, kGroupBytes<T>);
  static constexpr int kPitch = product_pitch(kFewRows, kGroupBytes<T>);
  static constexpr int kStageBytes = kLines * kPitch, kRingBytes = kFewRows.stages * kStageBytes;
  static_assert(kFewRows.columns == kLines * kFewRows.warps_of_columns && kFewRows.rows == 16);
};

// Starts a warp's copies of a stage, from row `first_n` of the weights on. Zero is what copy_weights has so.
template <class T>
__device__ __forceinline__ void copy_weights_of_warp(const LinearArgs& args, int first_n, int first_k,
                                                     unsigned char* stage) {
  using Sizes = FewSizes<T>;
  const int row_bytes = kGroupBytes<T> == 64 ? 2 * args.k : args.k / kQuantizedGroup * kGroupBytes<T>;
  const int first_byte = first_k / kQuantizedGroup * kGroupBytes<T> / 16 * 16;
  const unsigned char* const from = static_cast<const unsigned char*>(args.weight) +
                                    static_cast<std::int64_t>(first_n) * row_bytes + first_byte;
  constexpr int kAll = Sizes::kLines * Sizes::kPieces;
#pragma unroll
  for (int j = 0; j < kAll; j += 32) {
    const int i = j + static_cast<int>(threadIdx.x % 32);
    if (kAll % 32 != 0 && i >= kAll) continue;
    const int line = i / Sizes::kPieces, piece = i % Sizes::kPieces;
    const bool there = first_n + line < args.n && first_byte + 16 * piece < row_bytes;
    const int to =
        kGroupBytes<T> == 64 ? swizzled(line, piece, Sizes::kPitch) : line * Sizes::kPitch + 16 * piece;
    copy_async(stage + to, from + (there ? line * row_bytes + 16 * piece : 0), there);
  }
}

// Rounds `depth` elements from `first_k` on of the block's rows into shared memory; behind the end of k are
// zeros. All threads; between barriers.
template <class Lines>
__device__ __forceinline__ void round_inputs(const LinearArgs& args, const Lines& lines, int count,
                                             int first_k, int depth, unsigned char* inputs) {
  const int chunks = depth / 8;
  for (int line = 0; line < count; ++line) {
    const float* const x = lines.x(line) + first_k;
    const float factor = lines.factor(line);
#pragma unroll 4
    for (int chunk = static_cast<int>(threadIdx.x); chunk < chunks; chunk += kFewThreads) {
      FourFloats halves[2] = {};
      if (first_k + 8 * chunk < args.k) {
        const auto* const from = reinterpret_cast<const FourFloats*>(x + 8 * chunk);
        halves[0] = from[0];
        halves[1] = from[1];
      }
      FourWords words;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* const pair = halves[j / 2].at + 2 * (j % 2);
        words.at[j] = Lines::kWeighed ? pack(pair[0] * factor, pair[1] * factor) : pack(pair[0], pair[1]);
      }
      *reinterpret_cast<FourWords*>(inputs + swizzled(line, chunk, 2 * depth)) = words;
    }
  }
}

// Adds a stage's depth of k, which begins `at` elements behind the inputs' first.
template <class T>
__device__ __forceinline__ void multiply_few(int first_k, int at, int depth, int count,
                                             const unsigned char* stage, const unsigned char* inputs,
                                             const unsigned char* zeros, ProductSums<T, kFewRows>& sums) {
  const int lane = static_cast<int>(threadIdx.x % 32), line = lane % 16;
  const int shift = first_k / kQuantizedGroup * kGroupBytes<T> % 16;
  // One sum: nothing else hides how long loads take, so all of them come first.
  constexpr int kSteps = kFewRows.depth / 32;
  std::uint32_t left[kSteps][2][4], right[kSteps][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int chunk = (at + 32 * step) / 8 + 2 * half + lane / 16;
      const unsigned char* const from = line < count ? inputs + swizzled(line, chunk, 2 * depth) : zeros;
      load_matrices<false>(reinterpret_cast<const Bf16*>(from), left[step][half]);
    }
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    load_weights<T, kFewRows>(stage, static_cast<const T*>(nullptr), 0, 32 * step, shift, right[step]);
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      multiply_matrices(sums.at[0][0], left[step][half], {right[step][2 * half], right[step][2 * half + 1]});
}

// `lines` say which rows; args all else.
template <class T, class Lines>
__device__ __forceinline__ void linear_few(const LinearArgs& args, const Lines& lines) {
  using Sizes = FewSizes<T>;
  constexpr int kDepth = kFewRows.depth, kStages = kFewRows.stages;
  PAGODA_SHARED(unsigned char, shared);
  unsigned char* const inputs = shared;
  unsigned char* const zeros = shared + kFewInputBytes;
  const int warp = static_cast<int>(threadIdx.x / 32);
  unsigned char* const ring = zeros + kFewZeroBytes + warp * Sizes::kRingBytes;
  const int first_n = static_cast<int>(blockIdx.y) * kFewRows.columns + warp * Sizes::kLines;
  const int count = lines.count() < kFewRows.rows ? lines.count() : kFewRows.rows;
  const int stages = (args.k + kDepth - 1) / kDepth;
  // Stages whose inputs lie in shared memory together.
  const int fit = kFewInputBytes / (2 * kDepth) / count, at_once = fit < stages ? fit : stages;
  const bool has_work = first_n < args.n;
  const auto copy = [&](int number, int place) {
    if (number < stages && has_work)
      copy_weights_of_warp<T>(args, first_n, number * kDepth, ring + place * Sizes::kStageBytes);
    copies_commit();
  };
  for (int i = 0; i < kStages - 1; ++i) copy(i, i);
  if (threadIdx.x < kFewZeroBytes / 16) reinterpret_cast<FourWords*>(zeros)[threadIdx.x] = FourWords{};
  ProductSums<T, kFewRows> sums;
  clear(sums);
  int place = 0;
  for (int first = 0; first < stages; first += at_once) {
    if (first > 0) __syncthreads();  // nobody reads the part before
    round_inputs(args, lines, count, first * kDepth, at_once * kDepth, inputs);
    __syncthreads();
    const int behind = first + at_once < stages ? first + at_once : stages;
    for (int i = first; i < behind; ++i) {
      copies_wait<kStages - 2>();
      __syncwarp();  // the copies of all lanes are there, and the stage before is free
      copy(i + kStages - 1, place == 0 ? kStages - 1 : place - 1);
      if (has_work)
        multiply_few<T>(i * kDepth, (i - first) * kDepth, at_once * kDepth, count,
                        ring + place * Sizes::kStageBytes, inputs, zeros, sums);
      place = place + 1 == kStages ? 0 : place + 1;
    }
  }
  if (!has_work) return;
  if (args.n % 2 == 0)
    store_sums<true>(args, lines, 0, first_n, sums);
  else
    store_sums<false>(args, lines, 0, first_n, sums);
}

#define PAGODA_FEW_KERNEL(name, T)                                                       \
  __global__ void __launch_bounds__(kFewThreads, 2) linear_few_##name(LinearArgs args) { \
    linear_few<T>(args, BatchLines<kFewRows>(args));                                     \
  }
PAGODA_FEW_KERNEL(bf16, Bf16)
PAGODA_FEW_KERNEL(q4, Quantized4)
PAGODA_FEW_KERNEL(q8, Quantized8)
#undef PAGODA_FEW_KERNEL

}  // namespace pagoda::device::kernels
