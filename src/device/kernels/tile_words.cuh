#pragma once
// PTX instructions for tiles: asynchronous copies into shared memory, loads of 8x8 matrices and products of
// 16x16 by 16x8, all bfloat16 with sums in f32 (sm_80 and up). The emulated device has its own versions.
// Called by whole warps. The assignment of elements to lanes: emulated/tile_words.h.
#include "device/kernels/dialect.cuh"
#ifndef __CUDACC__
#include "device/emulated/tile_words.h"
#endif

namespace pagoda::device::kernels {

// Neighbours that are loaded and stored at once.
struct alignas(8) TwoFloats {
  float at[2];
};
struct alignas(16) FourFloats {
  float at[4];
};
struct alignas(8) TwoWords {
  std::uint32_t at[2];
};
struct alignas(16) FourWords {
  std::uint32_t at[4];
};

// Loads and stores a whole value at once. (The host's compiler may split the access; the emulated device
// would then count several: emulated/access_counts.h.)
template <class T>
__device__ __forceinline__ T load_whole(const void* from) {
#ifdef __CUDACC__
  return *static_cast<const T*>(from);
#else
  T value;
  emulated::load_whole(&value, from, sizeof value);
  return value;
#endif
}
template <class T>
__device__ __forceinline__ void store_whole(void* to, const T& value) {
#ifdef __CUDACC__
  *static_cast<T*>(to) = value;
#else
  emulated::store_whole(to, &value, sizeof value);
#endif
}

// Copies 16 bytes; both addresses are multiples of 16. Not `there`: writes zeros and reads nothing.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool there) {
#ifdef __CUDACC__
  const auto shared = shared_address(to);
  const int taken = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(taken)
               : "memory");
#else
  emulated::copy_async(to, from, there ? 16 : 0);
#endif
}

// Likewise, or a no-op if not `wanted`: without a branch.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool there, bool wanted) {
#ifdef __CUDACC__
  const auto shared = shared_address(to);
  const int taken = there ? 16 : 0;
  asm volatile(
      "{.reg .pred p;\n"
      "setp.ne.b32 p, %3, 0;\n"
      "@p cp.async.cg.shared.global [%0], [%1], 16, %2;}" ::"r"(shared),
      "l"(from), "r"(taken), "r"(static_cast<int>(wanted))
      : "memory");
#else
  if (wanted) emulated::copy_async(to, from, there ? 16 : 0);
#endif
}

// Groups this thread's copies since the last call.
__device__ __forceinline__ void copies_commit() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulated::copies_commit();
#endif
}

// Waits until at most the `left` latest of this thread's groups are in flight. Visible to other threads after
// a barrier.
template <int left>
__device__ __forceinline__ void copies_wait() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#else
  emulated::copies_wait(left);
#endif
}

template <bool transposed>
__device__ __forceinline__ void load_matrices(const Bf16* row, std::uint32_t (&out)[4]) {
#ifdef __CUDACC__
  const auto shared = shared_address(row);
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
#else
  emulated::load_matrices(row, transposed, out);
#endif
}

__device__ __forceinline__ void multiply_matrices(float (&sums)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulated::multiply_matrices(sums, a, b);
#endif
}

// Packs two numbers into a register, the first in the low half.
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
#ifdef __CUDACC__
  std::uint32_t pair;  // as store() rounds, except for the bits of NaN
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  Bf16 a, b;
  store(&a, low);
  store(&b, high);
  return static_cast<std::uint32_t>(b.bits) << 16 | a.bits;
#endif
}
__device__ __forceinline__ float low_of(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(std::uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

// Each half of `pair` times the same half of `factors`, rounded. Subnormal numbers are kept.
__device__ __forceinline__ std::uint32_t multiply_pair(std::uint32_t pair, std::uint32_t factors) {
#ifdef __CUDACC__
  std::uint32_t out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(pair), "r"(factors), "r"(0x80008000u));  // minus 0
  return out;
#else
  return pack(low_of(pair) * low_of(factors), high_of(pair) * high_of(factors));
#endif
}

}  // namespace pagoda::device::kernels
