#pragma once
// A warp's part of a product of few rows (linear_few.cuh): the ring into which its weights are copied, and
// the sums computed from it (FewChain), for weights that are widened and for those that are not.
#include "device/kernels/linear_tiles.cuh"

namespace pagoda::device::kernels {

template <class T>
struct FewSizes {
  static constexpr int kLines = 8;  // rows of weights of a warp
  static constexpr ProductTile kTile = few_tile(kGroupBytes<T>);
  // Pieces of codes.
  static constexpr int kDepth = kTile.depth,
                       kPieces = product_pieces(kTile, kGroupBytes<T>) - (kFloats4<T> ? 1 : 0),
                       kPitch = product_pitch(kTile, kGroupBytes<T>);
  // Parallel sums: for 8-bit floats, one per kFloat8Scale of k.
  static constexpr int kChains = kFloats8<T> ? kDepth / kFloat8Scale : 1;
  static constexpr int kFirstScale = kLines * kPitch;
  static constexpr int kStageBytes = kFirstScale + (kScalesOfBlocks<T> ? 16 * kLines : 0),
                       kRingBytes = kFewRows.stages * kStageBytes;
  // True if weights are widened before products. This determines the loop (FewChain), and with it where x is
  // in shared memory, and how copies are skipped.
  static constexpr bool kWidens = kGroupBytes<T> != kGroupBytes<Bf16>;
  // Bytes from a stage of a row of weights to the next.
  static constexpr int kRowStep = kFloats8<T>   ? kDepth
                                  : kFloats4<T> ? kDepth / 2
                                                : kDepth / kQuantizedGroup * kBytesOfGroup<T>;
  static_assert(kFewRows.columns == kLines * kFewRows.warps_of_columns && kFewRows.rows == 16);
  static_assert(!kFloats4<T> || kPieces == 4);
  static_assert(kRowStep == 16 * kPieces);  // a stage begins with a piece, and shift_of() it is 0
};

// Columns of y that a warp computes: gated ones need two rows of the weights each.
__device__ __forceinline__ int few_columns(const OutputFunction& output) { return output.gated != 0 ? 4 : 8; }

// The row of the weights for line `line` of a warp, or -1. Gated: four rows of the gate, then the matching
// four of up.
__device__ __forceinline__ std::int64_t few_row(const LinearArgs& args, const OutputFunction& output,
                                                int first_n, int line) {
  const int column = first_n + (output.gated != 0 ? line % 4 : line);
  return column >= args.n ? -1 : output.gated != 0 && line >= 4 ? args.n + column : column;
}

// A warp's copies of stages of its weights, from row `first_n` on: the source of this lane's pieces of the
// next stage, and the remaining bytes of their row. Fills with zeros where copy_weights does.
template <class T>
struct FewCopies {
  using Sizes = FewSizes<T>;
  static constexpr int kAll = Sizes::kLines * Sizes::kPieces, kCount = (kAll + 31) / 32;
  // Rows are whole stages: supports_product_tiles().
  static constexpr bool kWhole = kGroupBytes<T> != kGroupBytes<Bf16> &&
                                 kGroupBytes<T> != kGroupBytes<Quantized4> && !kFloats8<T> && !kFloats4<T>;
  static constexpr bool kHasScales = kScalesOfBlocks<T> || kFloats4<T>;  // copied together with the stages
  // For 8-bit floats, all pieces of a lane begin at the same byte of their rows, so that the same number of
  // bytes is left of each (a missing row is replaced by row 0), and lines four apart are swizzled alike.
  static constexpr int kPlaces = kFloats8<T> ? 2 : kCount, kLefts = kFloats8<T> ? 1 : kCount;
  static_assert(kLefts == kCount || 32 % Sizes::kPieces == 0);
  const unsigned char* from[kCount];
  int to[kPlaces], left[kLefts];
  const unsigned char* scales;  // those of this lane's line
  bool has_scales;

  __device__ __forceinline__ FewCopies(const LinearArgs& args, const OutputFunction& output, int first_n) {
    const int row_bytes = row_bytes_of<T>(args.k), code_bytes = code_bytes_of<T>(args.k);
    const auto* const weights = static_cast<const unsigned char*>(args.weight);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int i = 32 * j + static_cast<int>(threadIdx.x % 32);
      // Lines of 4-bit floats that are four apart are in different banks.
      const int line = kFloats4<T> ? i / 8 + i / 4 % 2 * 4 : i / Sizes::kPieces, piece = i % Sizes::kPieces;
      const std::int64_t row = few_row(args, output, first_n, line);
      // A missing row is replaced by row 0 if rows are whole stages: its sums are not stored.
      const bool there = i < kAll && (kWhole || kFloats8<T> || row >= 0);
      from[j] = weights + (there && row >= 0 ? row * row_bytes + 16 * piece : 16 * piece);
      if (j < kPlaces) to[j] = place_of<T>(line, piece, Sizes::kPitch);
      if (j < kLefts) left[j] = there ? code_bytes - 16 * piece : 0;
    }
    if constexpr (kHasScales) {
      const std::int64_t row = few_row(args, output, first_n, static_cast<int>(threadIdx.x % 32));
      has_scales = threadIdx.x % 32 < Sizes::kLines && row >= 0;
      scales = weights + (has_scales ? row * row_bytes + code_bytes : 0);
    }
  }

  // Starts the copies of stage `number`. Not `wanted`: there is no such stage.
  __device__ __forceinline__ void start(unsigned char* stage, int number, bool wanted) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const bool mine = kAll % 32 == 0 || j + 1 < kCount || threadIdx.x % 32 < kAll % 32;
      copy_async(stage + to[j % kPlaces] + j / kPlaces * 4 * Sizes::kPitch, from[j],
                 kWhole || left[j % kLefts] > 0, mine && wanted);
      from[j] += Sizes::kRowStep;  // nothing is read there once `left` is used up
      if (!kWhole && j >= kCount - kLefts) left[j % kLefts] -= Sizes::kRowStep;
    }
    if constexpr (kScalesOfBlocks<T>)
      copy_async(stage + Sizes::kFirstScale + 16 * (threadIdx.x % 32),
                 scales + scale_piece(number * Sizes::kDepth), true, has_scales && wanted);
    // Missing lines have codes of zero, and any power of two, or a scale of zero.
    if constexpr (kFloats4<T>)
      copy_async(stage + static_cast<int>(threadIdx.x % 32) * Sizes::kPitch + 16 * Sizes::kPieces,
                 scales + power_piece<T>(number * Sizes::kDepth), has_scales,
                 threadIdx.x % 32 < Sizes::kLines && wanted);
  }
};

// Bytes from a row of x to the next in shared memory, if `stages` of it are held; and the place of 16 bytes
// of it. Eight rows that are read at the same time are in different banks, by an odd number of pieces or by
// swizzling.
template <class T>
__device__ __forceinline__ int input_pitch(int stages) {
  return 2 * FewSizes<T>::kDepth * stages + (FewSizes<T>::kWidens ? 16 : 0);
}
template <class T>
__device__ __forceinline__ int place_of_input(int line, int piece, int pitch) {
  return FewSizes<T>::kWidens ? line * pitch + 16 * piece : swizzled(line, piece, pitch);
}

// A stage's matrices of x in registers, by steps of 32 of k. `low`, `high`: where the step's halves of 16
// begin in this lane's row of x, which it loads for the whole warp.
template <int steps>
struct FewInputs {
  std::uint32_t at[steps][2][4];

  __device__ __forceinline__ void load(int step, const unsigned char* low, const unsigned char* high) {
    load_matrices<false>(reinterpret_cast<const Bf16*>(low), at[step][0]);
    load_matrices<false>(reinterpret_cast<const Bf16*>(high), at[step][1]);
  }
  __device__ __forceinline__ void multiply(float (&sum)[4], int step, const std::uint32_t (&right)[4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      multiply_matrices(sum, at[step][half], {right[2 * half], right[2 * half + 1]});
  }
};

// Scales of adjacent blocks of 128 of k; or of rows, in the first element.
template <int chains>
struct FewScales {
  ColumnScales<1> of[chains];
  __device__ __forceinline__ void load(const unsigned char* from, int first_k) {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain)
      load_stage_scales(from, first_k + chain * kFloat8Scale, of[chain]);
  }
};

// Loads the factors of the rows' sums.
template <class T>
__device__ __forceinline__ void load_few_scales(const LinearArgs& args, const OutputFunction& output,
                                                int first_n, ColumnScales<1>& scales) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t row = few_row(args, output, first_n, 2 * static_cast<int>(threadIdx.x % 4) + i);
    scales.at[0][i] =
        row < 0 ? 0.0f : row_scale(stored_row(static_cast<const T*>(args.weight), row, args.k), args.k);
  }
}

// Scales of x: none; or those of this lane's two lines, per row, or per kFloat8Scale of a row.
struct NoInputScales {
  static constexpr bool kThere = false;
  __device__ __forceinline__ void load(int) {}
};
template <int chains>
struct InputScales {
  static constexpr bool kThere = true;
  const float* from[2] = {};
  float factors[2] = {};
  int last = 0;  // index of the last scale of a row
  float at[chains][2] = {};

  // Missing lines use the scales of the first.
  template <class Lines>
  __device__ __forceinline__ void find(const Lines& lines, int count) {
    last = lines.row_scales() - 1;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int line = static_cast<int>(threadIdx.x % 32) / 4 + 8 * h;
      from[h] = lines.scales(line < count ? line : 0);
      factors[h] = lines.factor_of_scales(line < count ? line : 0);
    }
  }
  // Loads the scales of stage `number`. Nothing is read beyond a row's end.
  __device__ __forceinline__ void load(int number) {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) {
      const int block = number * chains + chain < last ? number * chains + chain : last;
#pragma unroll
      for (int h = 0; h < 2; ++h) at[chain][h] = from[h][block] * factors[h];
    }
  }
};

// A warp's ring of stages. It is filled in order, and read at `from`.
template <class T>
struct FewRing {
  using Sizes = FewSizes<T>;
  FewCopies<T> copies;
  unsigned char* ring;
  int stages;  // stages in a row
  bool has_work;
  int to = 0, from = 0;  // bytes

  static __device__ __forceinline__ int further(int at) {
    return at + Sizes::kStageBytes == Sizes::kRingBytes ? 0 : at + Sizes::kStageBytes;
  }
  // Starts the copies of stage `number`; none if there is no such stage.
  __device__ __forceinline__ void copy(int number) {
    const bool wanted = number < stages && has_work;
    if (Sizes::kWidens || wanted) copies.start(ring + to, number, wanted);
    copies_commit();
    to = further(to);
  }
  __device__ __forceinline__ const unsigned char* stage() const { return ring + from; }
};

// The sums of a warp, over one part of x after the other: each is a single chain of products. Meanwhile, the
// weights of the next product, which were loaded into registers with the previous stage, are widened, and the
// next stage is loaded into the registers that are free. `most`: maximum rows of x.
template <class T, class RowScales, int most>
struct FewChain {
  using Sizes = FewSizes<T>;
  static constexpr int kDepth = Sizes::kDepth, kSteps = kDepth / 32, kStages = kFewRows.stages,
                       kChains = Sizes::kChains;
  ProductSums<T, kFewRows> sums[kChains], totals;  // totals: for 8-bit floats only
  FewScales<kChains> scales;
  RowScales of_rows;
  StoredStage<T> stored;
  FewInputs<kSteps> left;
  std::uint32_t right[4] = {};
  const unsigned char* row;

  // `line`: this lane's row of x; rows begin at `inputs`.
  __device__ __forceinline__ FewChain(const LinearArgs& args, const OutputFunction& output, int first_n,
                                      const unsigned char* inputs, int line, int pitch)
      : row(inputs + place_of_input<T>(line, static_cast<int>(threadIdx.x % 32) / 16, pitch)) {
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) clear(sums[chain]);
    clear(totals);
    if constexpr (kScalesOfRows<T>) load_few_scales<T>(args, output, first_n, scales.of[0]);
  }

  static __device__ __forceinline__ int input_place(int line, int piece, int pitch) {
    return place_of_input<T>(line, piece, pitch);
  }
  // The row of x that a lane loads: lines beyond the last one repeat the first; their products are not
  // stored.
  static __device__ __forceinline__ int line_of_lane(int count) {
    const int line = static_cast<int>(threadIdx.x % 16);
    return line < count ? line : 0;
  }

  // The steps of the chains alternate.
  static __device__ __forceinline__ int chain_of(int i) { return i % kChains; }
  static __device__ __forceinline__ int step_of(int i) {
    return i % kChains * (kSteps / kChains) + i / kChains;
  }
  __device__ __forceinline__ void load_left(const unsigned char* x, int step) {
    left.load(step, x + 64 * step, x + 64 * step + 32);
  }

  // Multiplies stages [first, behind), whose x is in shared memory.
  __device__ __forceinline__ void multiply(FewRing<T>& ring, int first, int behind) {
    if (first == 0) {
      copies_wait<kStages - 1>();
      __syncwarp();  // the copies of all lanes have arrived
      load_stage(stored, ring.stage(), Sizes::kPitch, 0);
      stored.fragment(0, right);
      if constexpr (kScalesOfBlocks<T>) scales.load(ring.stage() + Sizes::kFirstScale, 0);
    }
    const unsigned char* x = row;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) load_left(x, step);
#pragma unroll 2
    for (int i = first; i < behind; ++i) {
      copies_wait<kStages - 2>();
      __syncwarp();  // stage i + 1 has arrived, and all lanes have loaded stage i
      ring.from = i + 1 < ring.stages ? ring.further(ring.from) : ring.from;  // otherwise a wasted load
      if (i + 1 < behind) x += 2 * kDepth;
      const unsigned char* const next_stage = ring.stage();
      of_rows.load(i);
      StoredStage<T> coming;
      coming.begin(next_stage, Sizes::kPitch, shift_of<T>((i + 1 < ring.stages ? i + 1 : i) * kDepth));
      FewScales<kChains> coming_scales = scales;
      if constexpr (kScalesOfBlocks<T>)
        coming_scales.load(next_stage + Sizes::kFirstScale, (i + 1 < ring.stages ? i + 1 : i) * kDepth);
#pragma unroll
      for (int turn = 0; turn < kSteps; ++turn) {
        const int step = step_of(turn);
        std::uint32_t next[4];
        coming.load(next_stage, Sizes::kPitch, step);
        if (turn + 1 < kSteps)
          stored.fragment(step_of(turn + 1), next);
        else
          coming.fragment(0, next);
        left.multiply(sums[chain_of(turn)].at[0][0], step, right);
        load_left(x, step);
#pragma unroll
        for (int j = 0; j < 4; ++j) right[j] = next[j];
      }
      if constexpr (kFloats8<T>)
#pragma unroll
        for (int chain = 0; chain < kChains; ++chain) {
          if constexpr (RowScales::kThere)
            end_block(sums[chain], scales.of[chain], of_rows.at[chain], totals);
          else
            end_block(sums[chain], scales.of[chain], totals);
        }
      stored = coming;
      scales = coming_scales;
      ring.copy(i + kStages);
    }
  }

  __device__ __forceinline__ const ProductSums<T, kFewRows>& finish() {
    auto& all = kFloats8<T> ? totals : sums[0];
    if constexpr (kScalesOfRows<T>) scale_rows(scales.of[0], all);
    return all;
  }
};

// Likewise for up to eight rows: the four matrices of a step all hold these rows. The results for the other
// eight rows are meaningless.
template <int steps>
struct FewerInputs {
  std::uint32_t at[steps][4];

  // The eights of k in a step are in the order 0, 2, 1, 3.
  static __device__ __forceinline__ int eight_of_lane() {
    const int matrix = static_cast<int>(threadIdx.x % 32 / 8);
    return matrix % 2 * 2 + matrix / 2;
  }
  __device__ __forceinline__ void load(int step, const unsigned char* from) {
    load_matrices<false>(reinterpret_cast<const Bf16*>(from), at[step]);
  }
  __device__ __forceinline__ void multiply(float (&sum)[4], int step, const std::uint32_t (&right)[4]) const {
    multiply_matrices(sum, at[step], {right[0], right[1]});
    multiply_matrices(sum, {at[step][1], at[step][1], at[step][3], at[step][3]}, {right[2], right[3]});
  }
};

// Weights that are multiplied unchanged leave only loads between products: a stage replaces the previous one
// in registers, and the next copies start as soon as it is loaded.
template <int most>
struct FewChain<Bf16, NoInputScales, most> {
  using Sizes = FewSizes<Bf16>;
  static constexpr int kSteps = Sizes::kDepth / 32, kStages = kFewRows.stages;
  static constexpr bool kFewer = most <= 8;
  ProductSums<Bf16, kFewRows> sums;
  StoredStage<Bf16> right;
  std::conditional_t<kFewer, FewerInputs<kSteps>, FewInputs<kSteps>> left;
  // Places of two steps, or of their halves, in a stage; later steps repeat this pattern.
  const unsigned char* rows[kFewer ? 2 : 4];

  __device__ __forceinline__ FewChain(const LinearArgs&, const OutputFunction&, int,
                                      const unsigned char* inputs, int line, int pitch) {
    if constexpr (kFewer) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        rows[i] = inputs + input_place(line, 4 * i + FewerInputs<kSteps>::eight_of_lane(), pitch);
    } else {
      const int half = static_cast<int>(threadIdx.x % 32) / 16;
#pragma unroll
      for (int i = 0; i < 4; ++i) rows[i] = inputs + input_place(line, 2 * i + half, pitch);
    }
    clear(sums);
  }

  static __device__ __forceinline__ int input_place(int line, int piece, int pitch) {
    return place_of_input<Bf16>(line, piece, pitch);
  }
  static __device__ __forceinline__ int line_of_lane(int count) {
    const int line = static_cast<int>(threadIdx.x % (kFewer ? 8 : 16));
    return line < count ? line : 0;
  }

  // `x`: the byte offset of the stage in a row.
  __device__ __forceinline__ void load(const unsigned char* stage, int x, int step) {
    const int at = x + 128 * (step / 2);
    if constexpr (kFewer)
      left.load(step, rows[step % 2] + at);
    else
      left.load(step, rows[2 * (step % 2)] + at, rows[2 * (step % 2) + 1] + at);
    right.load(stage, Sizes::kPitch, step);
  }
  __device__ __forceinline__ void multiply(int step) { left.multiply(sums.at[0][0], step, right.at[step]); }
  // Stage i is in registers.
  __device__ __forceinline__ void next_stage(FewRing<Bf16>& ring, int i) {
    copies_wait<kStages - 2>();
    __syncwarp();  // stage i + 1 has arrived, and all lanes have loaded stage i
    ring.copy(i + kStages);
    ring.from = ring.further(ring.from);
  }

  __device__ __forceinline__ void multiply(FewRing<Bf16>& ring, int first, int behind) {
    copies_wait<kStages - 1>();
    __syncwarp();  // the copies of all lanes have arrived
#pragma unroll
    for (int step = 0; step < kSteps; ++step) load(ring.stage(), 0, step);
    for (int i = first; i + 1 < behind; ++i) {
      next_stage(ring, i);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        multiply(step);
        load(ring.stage(), 2 * Sizes::kDepth * (i + 1 - first), step);
      }
    }
    next_stage(ring, behind - 1);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) multiply(step);
  }

  __device__ __forceinline__ const ProductSums<Bf16, kFewRows>& finish() const { return sums; }
};

}  // namespace pagoda::device::kernels
