#pragma once
// The first include of every kernel: CUDA C++ for nvcc, or equivalents for the host's compiler, and helpers
// for both. The compiler never contracts products and sums (nvcc -fmad=false, -ffp-contract=off): a kernel
// that means one rounding uses fmaf, so that two kernels that share a function have the same bits.
#include <type_traits>
#ifndef __CUDACC__
#include "device/emulated/cuda_on_host.h"
#else
#include <cstdint>
#define PAGODA_SHARED(type, name)                                      \
  extern __shared__ __align__(16) unsigned char pagoda_shared_bytes[]; \
  type* const name = reinterpret_cast<type*>(pagoda_shared_bytes)
// Begins at a multiple of 1,024 bytes.
#define PAGODA_SWIZZLED_SHARED(type, name)                                 \
  extern __shared__ __align__(1024) unsigned char pagoda_swizzled_bytes[]; \
  type* const name = reinterpret_cast<type*>(pagoda_swizzled_bytes)
#endif

#include "device/kernels/kernel_args.h"

namespace pagoda::device::kernels {

#ifdef __CUDACC__
// The address in the shared window, as instructions on shared memory take it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
#endif

// The order of a kernel and the previous one in its stream. A device that launches early
// (Device::launch_early) begins a kernel's blocks as soon as all blocks of the previous kernel have called
// let_next_begin(), and these may still run. Before wait_for_earlier() a thread may only touch registers,
// shared memory, its arguments, and memory that no kernel writes (weights). After it, everything that earlier
// kernels wrote is visible. Every thread of every kernel waits; otherwise a following kernel could begin too
// early. A second wait has no effect. A kernel begins with begin_kernel(), which does both. On devices before
// 9.0 all of them are no-ops.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_earlier() {
#ifndef __CUDACC__
  emulated::wait_for_earlier();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void begin_kernel() {
  let_next_begin();
  wait_for_earlier();
}

constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct Bf16 {
  std::uint16_t bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(Bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

// An 8-bit cache: each token's head has one scale.
struct Int8 {
  std::int8_t value;
};
__device__ __forceinline__ float to_float(Int8 x) { return static_cast<float>(x.value); }

// 8-bit floats (e4m3). As bits of a float, exponent and fraction give a number 2^-120 times as large.
__device__ __forceinline__ float float8_value(std::uint32_t code) {
  return __uint_as_float((code & 0x80u) << 24 | (code & 0x7Fu) << 20) * 0x1p120f;
}
__device__ __forceinline__ float to_float(Float8 x) { return float8_value(x.bits); }
// Rounds to the nearest number with 4 bits of exponent and 3 of fraction, ties to even; larger magnitudes
// become 448.
__device__ __forceinline__ std::uint32_t to_e4m3(float x) {
  const std::uint32_t all = __float_as_uint(x), sign = all >> 24 & 0x80u, size = all & 0x7FFFFFFFu;
  if (size > 0x7F800000u) return sign | 0x7Fu;
  std::uint32_t code = 0x7E;
  if (size < 0x3C800000u)  // 2^-6: steps of 2^-9, which are the last bits of a number near 2^14
    code = __float_as_uint(__uint_as_float(size) + 0x1p14f) & 0xFu;
  else if (size < 0x43E80000u)  // 464, halfway from 448 to the next step
    code = ((size + 0x7FFFFu + (size >> 20 & 1u)) >> 20) - (120u << 3);
  return sign | code;
}

__device__ __forceinline__ void store(float* to, float x) { *to = x; }
// For keys and values: NaN also becomes 448.
__device__ __forceinline__ void store(Float8* to, float x) {
  const std::uint32_t code = to_e4m3(x);
  to->bits = static_cast<std::uint8_t>((code & 0x7Fu) == 0x7Fu ? code - 1 : code);
}
// Rounds to nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ void store(Bf16* to, float x) {
  const unsigned bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const unsigned rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  to->bits = static_cast<std::uint16_t>((is_nan ? bits | 0x400000u : rounded) >> 16);
}

// The sum over all lanes, returned in each: the halves of the warp are added first.
__device__ __forceinline__ float warp_sum(float x) {
  for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(kAllLanes, x, other);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
  for (int other = 16; other > 0; other /= 2) {
    const float there = __shfl_xor_sync(kAllLanes, x, other);
    x = there > x ? there : x;
  }
  return x;
}

// The sum over all threads of the block, a multiple of 32; `shared` has space for a float per warp, and may
// be reused after the next barrier.
__device__ __forceinline__ float block_sum(float x, float* shared) {
  x = warp_sum(x);
  const unsigned warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned warp = 0; warp < warps; ++warp) sum += shared[warp];
  return sum;
}

}  // namespace pagoda::device::kernels
