#pragma once
// Rows in 8-bit floats (float8_args.h), as inputs of products. grid.x: rows; block: whole warps, each with
// kFloat8Scale neighbours at a time; shared: a float for each eight threads (norms), then one for each warp.
#include "device/kernels/float8_args.h"
#include "device/kernels/rows.cuh"

namespace pagoda::device::kernels {

__device__ __forceinline__ float magnitude(float x) {
  return __uint_as_float(__float_as_uint(x) & 0x7FFFFFFFu);
}
__device__ __forceinline__ float largest_of(const FourFloats& four, float largest) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float size = magnitude(four.at[k]);
    largest = size > largest ? size : largest;
  }
  return largest;
}
// Zeros need a scale, too.
__device__ __forceinline__ float float8_scale(const QuantizeRowsArgs& args, float largest) {
  constexpr float kMost = 448.0f, kLeast = 1.0f / (kMost * 512.0f);
  if (args.scale != 0) return args.scale;
  if (args.largest > 0 && largest > args.largest) largest = args.largest;
  const float scale = largest / kMost;
  return scale > kLeast ? scale : kLeast;
}

// Stores four neighbours of each lane of a whole warp, from element `i` of the row on, one word of codes
// each. In a pair of lanes whose elements are eight apart, one lane has the word of the first two elements of
// both, the other that of the last two.
__device__ __forceinline__ void store_float8(const QuantizeRowsArgs& args, int row, int i, float scale,
                                             const FourFloats& four) {
  std::uint32_t codes[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) codes[k] = to_e4m3(four.at[k] / scale);
  const std::uint32_t low = codes[0] | codes[1] << 16, high = codes[2] | codes[3] << 16;
  const bool second = i / 8 % 2 != 0;
  const std::uint32_t other = __shfl_xor_sync(kAllLanes, second ? low : high, 2);
  const std::uint32_t word = second ? other << 8 | high : low << 8 | other;
  const int pair = i % 8 / 2 + (second ? 1 : 0),
            byte = i % kFloat8Scale / 32 * 32 + 8 * pair + 4 * (i / 16 % 2);
  *reinterpret_cast<std::uint32_t*>(args.out + float8_place(args.rows, row, i, byte)) = word;
}

// Likewise in bfloat16.
__device__ __forceinline__ void store_wide(const QuantizeRowsArgs& args, int row, int i, float scale,
                                           const FourFloats& four) {
  if (i >= args.width) return;
  float codes[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) codes[k] = float8_value(to_e4m3(four.at[k] / scale));
  store_whole(args.out + 2 * (static_cast<std::int64_t>(row) * args.width + i),
              TwoWords{pack(codes[0], codes[1]), pack(codes[2], codes[3])});
}

// `value(i)`: the row's four elements from i on, zero beyond its end; i and the end are multiples of four.
template <class Value>
__device__ __forceinline__ void quantize_row(const QuantizeRowsArgs& args, float* of_warps,
                                             const Value& value) {
  const int row = static_cast<int>(blockIdx.x), first = 4 * static_cast<int>(threadIdx.x),
            step = 4 * static_cast<int>(blockDim.x), end = float8_width(args.width);
  const bool wide = args.wide != 0, blocks = args.blocks != 0;
  // The first scale of this row; and the distance to the next.
  float* scales =
      reinterpret_cast<float*>(args.out + (wide ? 2 * static_cast<std::int64_t>(args.rows) * args.width
                                                : float8_codes(args.rows, args.width)));
  scales += wide ? row * float8_row_scales(args.width, blocks) : row;
  const int next_scale = wide ? 1 : args.rows;
  const auto put = [&](int i, float scale, const FourFloats& four) {
    if (wide)
      store_wide(args, row, i, scale, four);
    else
      store_float8(args, row, i, scale, four);
  };
  if (blocks) {
    for (int i = first; i < end; i += step) {
      const FourFloats four = value(i);
      const float scale = float8_scale(args, warp_max(largest_of(four, 0)));
      if (threadIdx.x % 32 == 0 && (!wide || i < args.width)) scales[i / kFloat8Scale * next_scale] = scale;
      put(i, scale, four);
    }
    return;
  }
  float largest = 0;
  if (args.scale == 0) {
#pragma unroll 2
    for (int i = first; i < end; i += step) largest = largest_of(value(i), largest);
    largest = warp_max(largest);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
    __syncthreads();
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp)
      largest = of_warps[warp] > largest ? of_warps[warp] : largest;
  }
  const float scale = float8_scale(args, largest);
  if (threadIdx.x == 0) *scales = scale;
#pragma unroll 2
  for (int i = first; i < end; i += step) put(i, scale, value(i));
}

__global__ void quantize_rows(QuantizeRowsArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, shared);
  const int width = args.width, stride = args.stride > 0 ? args.stride : width;
  const float* const x = args.x + static_cast<std::int64_t>(blockIdx.x) * stride;
  const bool fours = in_fours(width, x, nullptr);
  quantize_row(args, shared + blockDim.x / 8, [&](int i) { return load_four(x, i, width, fours); });
}

// Computes the sums of rms_norm and layer_norm.
__global__ void quantize_norm(QuantizeRowsArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, shared);
  const int width = args.width, stride = args.stride > 0 ? args.stride : width;
  const float* const x = args.x + static_cast<std::int64_t>(blockIdx.x) * stride;
  const InputNorm& norm = args.norm;
  const bool fours = in_fours(width, x, nullptr, norm.weight, norm.bias);
  const RowOfFours values(x, width, fours);
  float mean = 0;
  if (norm.kind == InputNorm::Kind::layer) {
    mean = values.sum<RowTerms::values>(0, shared) / static_cast<float>(width);
    __syncthreads();
  }
  const float scale = scale_of_norm(values.sum<RowTerms::squares>(mean, shared), width, norm.eps);
  quantize_row(args, shared + blockDim.x / 8, [&](int i) {
    FourFloats four = load_four(x, i, width, fours), weight = {{1, 1, 1, 1}};
    if (i >= width) return four;
    if (norm.weight != nullptr) weight = load_four(norm.weight, i, width, fours);
#pragma unroll
    for (int k = 0; k < 4; ++k) four.at[k] = normalized(four.at[k], mean, scale, weight.at[k]);
    if (norm.bias == nullptr) return four;
    const FourFloats bias = load_four(norm.bias, i, width, fours);
#pragma unroll
    for (int k = 0; k < 4; ++k) four.at[k] += bias.at[k];
    return four;
  });
}

__global__ void quantize_function(QuantizeRowsArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, shared);
  const int width = args.width;
  const OutputFunction& function = args.function;
  const float* const in =
      args.x + static_cast<std::int64_t>(blockIdx.x) * (function.gated != 0 ? 2 : 1) * width;
  const bool fours = in_fours(width, in, nullptr);
  quantize_row(args, shared + blockDim.x / 8, [&](int i) {
    FourFloats four = load_four(in, i, width, fours);
    if (i >= width) return four;
    const FourFloats up = function.gated != 0 ? load_four(in + width, i, width, fours) : FourFloats{};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      four.at[k] = function.gated != 0 ? gated(function.function, four.at[k], up.at[k])
                                       : function_of(function.function, four.at[k]);
    return four;
  });
}

}  // namespace pagoda::device::kernels
