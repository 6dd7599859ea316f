#pragma once
// Products of up to kFewRows.rows rows (kMostFewRows are enough for linear_several): the weights pass by
// once, and how fast they come is all that counts. Each warp has eight rows of the weights and a ring of
// stages of its own, which it fills and empties without waiting for another warp; the block's rows of x lie
// in shared memory, rounded to bfloat16, all of k at once where it fits (kFewInputBytes), else a part after
// the other, which are the only barriers. The chain of an element's sum is linear_tiles.cuh's. grid: (tiles
// of rows, tiles of n); block: warps of the tile; shared: few_shared_bytes().
//
// A launch costs such a product more than its arithmetic does. So what stands beside it can be part of it,
// with the same bits: each block works the norm of its rows out for itself (InputNorm), the function behind
// it takes the sums where they are (OutputFunction), and matrices of several types share a launch
// (linear_few_parts).
#include "device/kernels/linear_tiles.cuh"
#include "device/kernels/rows.cuh"

namespace pagoda::device::kernels {

inline constexpr int kFewThreads = product_threads(kFewRows);

template <class T>
struct FewSizes {
  static constexpr int kLines = 8;  // rows of weights of a warp
  static constexpr ProductTile kTile = few_tile(kGroupBytes<T>);
  static constexpr int kDepth = kTile.depth, kPieces = product_pieces(kTile, kGroupBytes<T>),
                       kPitch = product_pitch(kTile, kGroupBytes<T>);
  // Sums that go on side by side: of 8-bit floats, of kFloat8Scale of k each.
  static constexpr int kChains = kFloats8<T> ? kDepth / kFloat8Scale : 1;
  static constexpr int kFirstScale = kLines * kPitch;
  static constexpr int kStageBytes = kFirstScale + (kScalesOfBlocks<T> ? 16 * kLines : 0),
                       kRingBytes = kFewRows.stages * kStageBytes;
  static constexpr bool kWidens = kGroupBytes<T> != kGroupBytes<Bf16>;
  // A turn of the loop has so many: where nothing is widened, the compiler would load the second one's late.
  static constexpr int kStagesAtOnce = kWidens ? 2 : 1;
  // From a stage of a row of weights to the next one.
  static constexpr int kRowStep = kFloats8<T> ? kDepth : kDepth / kQuantizedGroup * kGroupBytes<T>;
  static_assert(kFewRows.columns == kLines * kFewRows.warps_of_columns && kFewRows.rows == 16);
  static_assert(kRowStep == 16 * kPieces);  // a stage begins with a piece, and shift_of() it is 0
};

// Columns of y that a warp makes: gated ones have two rows of the weights each.
__device__ __forceinline__ int few_columns(const OutputFunction& output) { return output.gated != 0 ? 4 : 8; }

// The row of the weights that line `line` of a warp has, or -1. Gated: four rows of the gate, then the same
// of what it opens.
__device__ __forceinline__ std::int64_t few_row(const LinearArgs& args, const OutputFunction& output,
                                                int first_n, int line) {
  const int column = first_n + (output.gated != 0 ? line % 4 : line);
  return column >= args.n ? -1 : output.gated != 0 && line >= 4 ? args.n + column : column;
}

// A warp's copies of stages of its weights, from row `first_n` on: where this lane's pieces of the next stage
// come from, and how much of their row is left. Zero is what copy_weights has so.
template <class T>
struct FewCopies {
  using Sizes = FewSizes<T>;
  static constexpr int kAll = Sizes::kLines * Sizes::kPieces, kCount = (kAll + 31) / 32;
  // Rows are whole stages: supports_product_tiles().
  static constexpr bool kWhole =
      kGroupBytes<T> != kGroupBytes<Bf16> && kGroupBytes<T> != kGroupBytes<Quantized4> && !kFloats8<T>;
  const unsigned char* from[kCount];
  int to[kCount], left[kCount];
  const unsigned char* scales;  // blocks have them, and this lane a line's
  bool has_scales;

  __device__ __forceinline__ FewCopies(const LinearArgs& args, const OutputFunction& output, int first_n) {
    const int row_bytes = row_bytes_of<T>(args.k), code_bytes = code_bytes_of<T>(args.k);
    const auto* const weights = static_cast<const unsigned char*>(args.weight);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int i = 32 * j + static_cast<int>(threadIdx.x % 32);
      const int line = i / Sizes::kPieces, piece = i % Sizes::kPieces;
      const std::int64_t row = few_row(args, output, first_n, line);
      // A row that is not there is row 0 where rows are whole stages: its sums are stored nowhere.
      const bool there = i < kAll && (kWhole || row >= 0);
      from[j] = weights + (there && row >= 0 ? row * row_bytes + 16 * piece : 16 * piece);
      to[j] = place_of<T>(line, piece, Sizes::kPitch);
      left[j] = there ? code_bytes - 16 * piece : 0;
    }
    if constexpr (kScalesOfBlocks<T>) {
      const std::int64_t row = few_row(args, output, first_n, static_cast<int>(threadIdx.x % 32));
      has_scales = threadIdx.x % 32 < Sizes::kLines && row >= 0;
      scales = weights + (has_scales ? row * row_bytes + args.k : 0);
    }
  }

  // Stage `number`. Not `wanted`: there is no such stage.
  __device__ __forceinline__ void start(unsigned char* stage, int number, bool wanted) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const bool mine = kAll % 32 == 0 || j + 1 < kCount || threadIdx.x % 32 < kAll % 32;
      copy_async(stage + to[j], from[j], kWhole || left[j] > 0, mine && wanted);
      from[j] += Sizes::kRowStep;  // nothing is read there once `left` is over
      if (!kWhole) left[j] -= Sizes::kRowStep;
    }
    if constexpr (kScalesOfBlocks<T>)
      copy_async(stage + Sizes::kFirstScale + 16 * (threadIdx.x % 32),
                 scales + scale_piece(number * Sizes::kDepth), true, has_scales && wanted);
  }
};

// A row's sum as a norm that is launched by itself has it (whole_rows() in kernel_launches.cc).
template <RowTerms terms>
__device__ __forceinline__ float norm_sum(const float* x, int width, float mean, float* shared) {
  constexpr int kWide = kWideRowThreads > kFewThreads ? kWideRowThreads / kFewThreads : 1,
                kNarrow = kRowThreads > kFewThreads ? kRowThreads / kFewThreads : 1;
  return width >= kWideRow ? row_sum<terms, kWide>(x, width, mean, kWideRowThreads, shared)
                           : row_sum<terms, kNarrow>(x, width, mean, kRowThreads, shared);
}

// A mean and a scale of each of the block's rows into shared memory, whose first kFewSums floats are room.
// All threads; a barrier is behind it.
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

// Four elements of a row, from the `first` of its k on, as its norm has them.
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

// Rounds `depth` elements from `first_k` on of the block's rows into shared memory, or brings rounded ones;
// behind the end of k are zeros. `moments`: find_moments() has made them. All threads; between barriers.
template <class Lines>
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
      store_whole(inputs + line * pitch + 16 * chunk, words);
    }
  }
}

// A stage's matrices of x in registers, by steps of 32 of k. `x`: of the stage in this lane's row, which it
// loads for all.
template <int steps>
struct FewInputs {
  std::uint32_t at[steps][2][4];

  __device__ __forceinline__ void load(const unsigned char* x, int step) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      load_matrices<false>(reinterpret_cast<const Bf16*>(x + 64 * step + 32 * half), at[step][half]);
  }
  __device__ __forceinline__ void multiply(float (&sum)[4], int step, const std::uint32_t (&right)[4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      multiply_matrices(sum, at[step][half], {right[2 * half], right[2 * half + 1]});
  }
};

// Scales of blocks of 128 of k side by side, or of rows, in the first place.
template <int chains>
struct FewScales {
  ColumnScales<1> of[chains];
  __device__ __forceinline__ void load(const unsigned char* from, int first_k) {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain)
      load_stage_scales(from, first_k + chain * kFloat8Scale, of[chain]);
  }
};

// y = f(sum + bias). A lane has two columns of two rows; gated ones that it has lie two lanes behind their
// gates.
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

// `lines` say which rows, `tile` which of n; args all else. The first copies of weights begin before earlier
// kernels have ended.
template <class T, class Lines>
__device__ __forceinline__ void linear_few(const LinearArgs& args, const InputNorm& norm,
                                           const OutputFunction& output, const Lines& lines, int tile) {
  let_next_begin();
  using Sizes = FewSizes<T>;
  constexpr int kDepth = Sizes::kDepth, kStages = kFewRows.stages, kChains = Sizes::kChains,
                kSteps = kDepth / 32;
  PAGODA_SHARED(unsigned char, shared);
  unsigned char* const inputs = shared;
  const int lane = static_cast<int>(threadIdx.x % 32);
  // As a lane says it to all, so that the compiler knows that they go the same way.
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x / 32), 0);
  const int count = lines.count() < kFewRows.rows ? lines.count() : kFewRows.rows;
  unsigned char* const rings = shared + few_input_bytes(kGroupBytes<T>, count, args.k);
  unsigned char* const ring = rings + warp * Sizes::kRingBytes;
  auto* const moments = reinterpret_cast<float*>(rings + kFewRows.warps_of_columns * Sizes::kRingBytes);
  const int first_n = (tile * kFewRows.warps_of_columns + warp) * few_columns(output);
  const int stages = (args.k + kDepth - 1) / kDepth;
  // Stages of x that are held at once.
  const int fit = kFewInputBytes / (2 * kDepth) / count, at_once = fit < stages ? fit : stages;
  const int pitch = 2 * kDepth * at_once + 16;
  const bool has_work = first_n < args.n;
  FewCopies<T> copies(args, output, first_n);
  int to = 0, from = 0;  // bytes in the ring
  const auto further = [](int at) {
    return at + Sizes::kStageBytes == Sizes::kRingBytes ? 0 : at + Sizes::kStageBytes;
  };
  const auto copy = [&](int number) {
    copies.start(ring + to, number, number < stages && has_work);
    copies_commit();
    to = further(to);
  };
  for (int i = 0; i < kStages; ++i) copy(i);
  wait_for_earlier();  // until here only weights are read
  // Lines behind the last one are products of the first, which nobody stores.
  const unsigned char* const row = inputs + (lane % 16 < count ? lane % 16 * pitch : 0) + 16 * (lane / 16);
  ProductSums<T, kFewRows> sums[kChains], totals;  // totals: of 8-bit floats alone
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) clear(sums[chain]);
  clear(totals);
  FewScales<kChains> scales;
  if constexpr (kScalesOfRows<T>)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t row_of = few_row(args, output, first_n, 2 * (lane % 4) + i);
      scales.of[0].at[0][i] =
          row_of < 0 ? 0.0f
                     : *float8_scales(stored_row(static_cast<const T*>(args.weight), row_of, args.k), args.k);
    }
  // Steps of the chains in turns.
  const auto chain_of = [](int i) { return i % kChains; };
  const auto step_of = [](int i) { return i % kChains * (kSteps / kChains) + i / kChains; };
  StoredStage<T> stored;
  FewInputs<kSteps> left;
  std::uint32_t right[4] = {};
  if (norm.kind != InputNorm::Kind::none) find_moments(args, norm, lines, count, moments);
  for (int first = 0; first < stages; first += at_once) {
    if (first > 0) __syncthreads();  // nobody reads the part before
    round_inputs(args, norm, moments + kFewSums, lines, count, first * kDepth, at_once * kDepth, pitch,
                 inputs);
    __syncthreads();
    const int behind = first + at_once < stages ? first + at_once : stages;
    if (!has_work) continue;
    if (first == 0) {
      copies_wait<kStages - 1>();
      __syncwarp();  // the copies of all lanes are there
      load_stage(stored, ring, Sizes::kPitch);
      if constexpr (Sizes::kWidens) stored.fragment(0, right);
      if constexpr (kScalesOfBlocks<T>) scales.load(ring + Sizes::kFirstScale, 0);
    }
    const unsigned char* x = row;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) left.load(x, step);
    // One sum is one chain of products. While one of them goes on, the weights of the next are widened, which
    // came into registers with the stage before, and the next stage comes into the registers that are free.
#pragma unroll Sizes::kStagesAtOnce
    for (int i = first; i < behind; ++i) {
      copies_wait<kStages - 2>();
      __syncwarp();                              // stage i + 1 is there, and all have loaded stage i
      if (i + 1 < stages) from = further(from);  // else it is loaded again, and not used
      if (i + 1 < behind) x += 2 * kDepth;
      StoredStage<T> coming;
      coming.begin(ring + from, Sizes::kPitch);
      FewScales<kChains> coming_scales = scales;
      if constexpr (kScalesOfBlocks<T>)
        coming_scales.load(ring + from + Sizes::kFirstScale, (i + 1 < stages ? i + 1 : i) * kDepth);
#pragma unroll
      for (int turn = 0; turn < kSteps; ++turn) {
        const int step = step_of(turn);
        if constexpr (Sizes::kWidens) {
          std::uint32_t next[4];
          coming.load(ring + from, Sizes::kPitch, step);
          if (turn + 1 < kSteps)
            stored.fragment(step_of(turn + 1), next);
          else
            coming.fragment(0, next);
          left.multiply(sums[chain_of(turn)].at[0][0], step, right);
          left.load(x, step);
#pragma unroll
          for (int j = 0; j < 4; ++j) right[j] = next[j];
        } else {
          stored.fragment(step, right);
          left.multiply(sums[0].at[0][0], step, right);
          left.load(x, step);
          coming.load(ring + from, Sizes::kPitch, step);
        }
      }
      if constexpr (kFloats8<T>)
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) end_block(sums[chain], scales.of[chain], totals);
      stored = coming;
      scales = coming_scales;
      copy(i + kStages);
    }
  }
  if (!has_work) return;
  if constexpr (kScalesOfRows<T>) scale_rows(scales.of[0], totals);
  const ProductSums<T, kFewRows>& all = kFloats8<T> ? totals : sums[0];
  if (output.is_there != 0)
    store_function(args, output, lines, first_n, all);
  else if (has_pairs(args))
    store_sums<true>(args, lines, 0, first_n, all);
  else
    store_sums<false>(args, lines, 0, first_n, all);
}

#define PAGODA_FEW_KERNEL(name, T)                                                          \
  __global__ void __launch_bounds__(kFewThreads, 2) linear_few_##name(FewLinearArgs args) { \
    linear_few<T>(args.product, args.norm, args.output, BatchLines<kFewRows>(args.product), \
                  static_cast<int>(blockIdx.y));                                            \
  }
PAGODA_FEW_KERNEL(bf16, Bf16)
PAGODA_FEW_KERNEL(q4, Quantized4)
PAGODA_FEW_KERNEL(q8, Quantized8)
PAGODA_FEW_KERNEL(q4_k, Quantized4K)
PAGODA_FEW_KERNEL(q6_k, Quantized6K)
PAGODA_FEW_KERNEL(fp8, Float8)
PAGODA_FEW_KERNEL(fp8_blocks, Float8Blocks)
#undef PAGODA_FEW_KERNEL

template <class T>
__device__ __forceinline__ void multiply_part(const LinearPartsArgs& args, const LinearPart& part, int tile) {
  LinearArgs product = args.all.product;
  product.weight = part.weight;
  product.bias = part.bias;
  product.n = part.n;
  product.y += part.first_column;
  linear_few<T>(product, args.all.norm, args.all.output, BatchLines<kFewRows>(product),
                tile - part.first_tile);
}

// The same, each block for the part that its tile is of. No part is gated, or of 8-bit floats, whose
// registers all would have to have.
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
      return multiply_part<Quantized6K>(args, part, tile);
  }
}

}  // namespace pagoda::device::kernels
