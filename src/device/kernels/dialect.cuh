#pragma once
// The first include of every kernel: CUDA C++ as nvcc has it, or its words for the host's compiler; what the
// two share. Products and sums are never contracted behind the sources' back (nvcc -fmad=false,
// -ffp-contract=off): where a kernel means one rounding it says fmaf, so that two kernels which share a
// function share its bits.
#include <type_traits>
#ifndef __CUDACC__
#include "device/emulated/cuda_on_host.h"
#else
#include <cstdint>
#define PAGODA_SHARED(type, name)                                      \
  extern __shared__ __align__(16) unsigned char pagoda_shared_bytes[]; \
  type* const name = reinterpret_cast<type*>(pagoda_shared_bytes)
// From a multiple of 1,024 bytes on.
#define PAGODA_SWIZZLED_SHARED(type, name)                                 \
  extern __shared__ __align__(1024) unsigned char pagoda_swizzled_bytes[]; \
  type* const name = reinterpret_cast<type*>(pagoda_swizzled_bytes)
#endif

#include "device/kernels/kernel_args.h"

namespace pagoda::device::kernels {

#ifdef __CUDACC__
// As instructions that name the shared window take it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
#endif

// How a kernel follows the one in front of it in its stream. A device that launches early
// (Device::launch_early) begins a kernel's blocks as soon as all blocks in front of them have said
// let_next_begin(), and these may still run. Up to wait_for_earlier() a thread touches nothing but registers,
// shared memory, its arguments, and memory that no kernel writes: weights. Behind it is all that earlier
// kernels wrote. Every thread of every kernel waits, or who follows it could begin too early; again is for
// nothing. A kernel begins with begin_kernel(), which is both. On devices before 9.0 none of them does
// anything.
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

// An 8-bit cache: a token's head has a scale beside them.
struct Int8 {
  std::int8_t value;
};
__device__ __forceinline__ float to_float(Int8 x) { return static_cast<float>(x.value); }

// 8-bit floats (e4m3). The exponent and the fraction are those of a number 2^-120 times as large.
__device__ __forceinline__ float float8_value(std::uint32_t code) {
  return __uint_as_float((code & 0x80u) << 24 | (code & 0x7Fu) << 20) * 0x1p120f;
}
__device__ __forceinline__ float to_float(Float8 x) { return float8_value(x.bits); }
// The nearest number of 4 bits of exponent and 3 of fraction, ties to even; what is larger than all is 448.
__device__ __forceinline__ std::uint32_t to_e4m3(float x) {
  const std::uint32_t all = __float_as_uint(x), sign = all >> 24 & 0x80u, size = all & 0x7FFFFFFFu;
  if (size > 0x7F800000u) return sign | 0x7Fu;
  std::uint32_t code = 0x7E;
  if (size < 0x3C800000u)  // 2^-6: steps of 2^-9, which are the last bits of a number by 2^14
    code = __float_as_uint(__uint_as_float(size) + 0x1p14f) & 0xFu;
  else if (size < 0x43E80000u)  // 464, halfway from 448 to what would be next
    code = ((size + 0x7FFFFu + (size >> 20 & 1u)) >> 20) - (120u << 3);
  return sign | code;
}

__device__ __forceinline__ void store(float* to, float x) { *to = x; }
// Keys and values: what is not a number is 448, too.
__device__ __forceinline__ void store(Float8* to, float x) {
  const std::uint32_t code = to_e4m3(x);
  to->bits = static_cast<std::uint8_t>((code & 0x7Fu) == 0x7Fu ? code - 1 : code);
}
// To the nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ void store(Bf16* to, float x) {
  const unsigned bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const unsigned rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  to->bits = static_cast<std::uint16_t>((is_nan ? bits | 0x400000u : rounded) >> 16);
}

// The sum over all lanes, the same in each: halves of the warp are added first.
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

// The sum over all threads of the block, a multiple of 32 of them; `shared` has room for a float a warp, and
// may be used for something else after the next barrier.
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
