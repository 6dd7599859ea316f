#pragma once
// A warp's sums of 8-bit floats by up to kPairedRows rows of x. The weights are the left matrices of
// products: eight rows of one block of kFloat8Scale of k, and the same rows of the next block, whose sums are
// another chain. The right matrices are the rows of x: for the first block in columns 0 to 3, for the second
// one in columns 4 to 7. So a product advances both chains, and no column is unused. The products of one
// block by the other block's x are meaningless. Each chain has the bits of FewChain's.
#include "device/kernels/few_chains.cuh"

namespace pagoda::device::kernels {

template <class T>
struct PairedChain {
  using Sizes = FewSizes<T>;
  static constexpr int kDepth = Sizes::kDepth, kStages = kFewRows.stages, kGroups = kFloat8Scale / 32;
  static_assert(kFloats8<T> && kDepth == 2 * kFloat8Scale && Sizes::kPitch == kDepth);

  // A stage in registers: codes of 32 of k of both blocks, the same part of x, and scales of both blocks.
  struct Stage {
    std::uint32_t codes[kGroups][2][2], x[kGroups][4];
    TwoFloats scales;
  };
  Stage stage;
  TwoFloats totals = {};  // this lane's row of weights by two rows of x, in the lanes of the first block
  ColumnScales<1> row_scales;
  ProductSums<T, kFewRows> all;
  const unsigned char* rows[2];  // x, from which this lane loads even and odd groups
  int groups[kGroups];           // places of this lane's codes in a stage

  // In blocks with odd numbers, pieces of x are swapped with those half of 128 bytes away: other banks.
  static __device__ __forceinline__ int input_place(int line, int piece, int pitch) {
    return line * pitch + 16 * (piece ^ (piece / 4 & 4));
  }
  // The row of x that a lane loads, which must exist.
  static __device__ __forceinline__ int line_of_lane(int count) {
    const int line = static_cast<int>(threadIdx.x % 4);
    return line < count ? line : 0;
  }

  __device__ __forceinline__ PairedChain(const LinearArgs& args, const OutputFunction& output, int first_n,
                                         const unsigned char* inputs, int line, int pitch) {
    const int lane = static_cast<int>(threadIdx.x % 32), second = lane / 4 % 2, piece = lane / 8;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      rows[i] = inputs + input_place(line, second * (kFloat8Scale / 8) + 4 * i + piece, pitch);
#pragma unroll
    for (int i = 0; i < kGroups; ++i)
      groups[i] = swizzled_twos(lane / 4, 2 * i + lane % 4 / 2, Sizes::kPitch) + 8 * (lane % 2);
    if constexpr (kScalesOfRows<T>) load_few_scales<T>(args, output, first_n, row_scales);
  }

  __device__ __forceinline__ void load_codes(const unsigned char* from, int group) {
#pragma unroll
    for (int block = 0; block < 2; ++block) {  // the pieces of both blocks are swizzled alike
      const auto codes = load_whole<TwoWords>(from + groups[group] + block * kFloat8Scale);
      stage.codes[group][block][0] = codes.at[0], stage.codes[group][block][1] = codes.at[1];
    }
  }
  // `x`: bytes from the first stage that is held.
  __device__ __forceinline__ void load_x(int x, int group) {
    load_matrices<false>(reinterpret_cast<const Bf16*>(rows[group % 2] + x + 128 * (group / 2)),
                         stage.x[group]);
  }
  __device__ __forceinline__ void load_scales(const unsigned char* from, int number) {
    if constexpr (kScalesOfBlocks<T>)
      stage.scales = load_whole<TwoFloats>(from + Sizes::kFirstScale +
                                           16 * static_cast<int>(threadIdx.x % 32 / 4) + number % 2 * 8);
  }

  __device__ __forceinline__ void multiply_group(float (&sums)[4], int group) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t left[4];
#pragma unroll
      for (int block = 0; block < 2; ++block)
        widen_float8(stage.codes[group][block][half], left[block], left[2 + block]);
      multiply_matrices(sums, left, {stage.x[group][2 * half], stage.x[group][2 * half + 1]});
    }
  }
  // The sums of the second block are in the lanes that have its rows of x.
  __device__ __forceinline__ void end_blocks(const float (&sums)[4], const TwoFloats& scales) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float second = __shfl_xor_sync(kAllLanes, sums[2 + i], 2);
      float& total = totals.at[i];
      total = kScalesOfBlocks<T> ? fmaf(sums[i], scales.at[0], total) : total + sums[i];
      total = kScalesOfBlocks<T> ? fmaf(second, scales.at[1], total) : total + second;
    }
  }

  // Multiplies stages [first, behind), whose x is in shared memory.
  __device__ __forceinline__ void multiply(FewRing<T>& ring, int first, int behind) {
    if (first == 0) {
      copies_wait<kStages - 1>();
      __syncwarp();  // the copies of all lanes have arrived
#pragma unroll
      for (int group = 0; group < kGroups; ++group) load_codes(ring.stage(), group);
      load_scales(ring.stage(), 0);
    }
    int x = 0;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) load_x(x, group);
#pragma unroll 2
    for (int i = first; i < behind; ++i) {
      copies_wait<kStages - 2>();
      __syncwarp();  // stage i + 1 has arrived, and all lanes have loaded stage i
      // After the last stage, one is loaded again, without effect.
      ring.from = i + 1 < ring.stages ? ring.further(ring.from) : ring.from;
      if (i + 1 < behind) x += 2 * kDepth;
      const TwoFloats scales = stage.scales;
      load_scales(ring.stage(), i + 1 < ring.stages ? i + 1 : i);
      float sums[4] = {};
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        multiply_group(sums, group);
        load_codes(ring.stage(), group);
        load_x(x, group);
      }
      end_blocks(sums, scales);
      ring.copy(i + kStages);
    }
  }

  // As FewChain returns them: rows of x for rows, and columns for this lane's two rows of the weights.
  __device__ __forceinline__ const ProductSums<T, kFewRows>& finish() {
    const int lane = static_cast<int>(threadIdx.x % 32), line = lane / 4;
    clear(all);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int from = 4 * (2 * (lane % 4) + i) + line / 2 % 2;
      const float even = __shfl_sync(kAllLanes, totals.at[0], from),
                  odd = __shfl_sync(kAllLanes, totals.at[1], from);
      all.at[0][0][i] = line % 2 == 0 ? even : odd;
    }
    if constexpr (kScalesOfRows<T>) scale_rows(row_scales, all);
    return all;
  }
};

}  // namespace pagoda::device::kernels
