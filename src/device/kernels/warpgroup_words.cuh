#pragma once
// PTX instructions for products of warpgroups (wgmma; compute capability 9.0, compiled for 90a): four warps,
// beginning at a multiple of four, multiply matrices in shared memory while their threads continue. The
// emulated device has its own versions. Must not be called if Device::has_warpgroups() is false. A step of 16
// of k adds to a sum the same bits as multiply_matrices() of tile_words.cuh. No document of the manufacturer
// says so. It was found on hardware for bfloat16: both compute one sum of 16 products and the previous sum
// (arXiv 2511.10909), and bulk_check.h tests it on each device. It does not hold for 8-bit floats: there,
// warpgroups have fewer bits.
#include "device/kernels/cluster_words.cuh"
#include "device/kernels/warpgroup_operands.h"
#ifndef __CUDACC__
#include "device/emulated/warpgroup_words.h"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
#error "compile for 90a: 90 has no products of warpgroups"
#endif
#define PAGODA_WARPGROUPS 1
#endif

namespace pagoda::device::kernels {

// Sets the registers of each thread of the warpgroup from here on: more than the kernel's launch bounds give,
// once other warpgroups have released them; or fewer.
template <int registers, bool more>
__device__ __forceinline__ void set_registers() {
#if defined(PAGODA_WARPGROUPS)
  if constexpr (more)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}

// Makes writes to shared memory, by stores or by completed asynchronous copies, visible to products of
// warpgroups: this thread's own writes, to products after a barrier at which it arrives next; and writes of
// other threads before a barrier for which it has waited, to its own products.
__device__ __forceinline__ void show_writes() {
#ifndef __CUDACC__
  emulated::show_writes();
#elif defined(PAGODA_WARPGROUPS)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Called before the first product that adds to these sums, and after each change of them.
template <int eights>
__device__ __forceinline__ void fence_products(float (&sums)[eights][4]) {
#ifndef __CUDACC__
  emulated::fence_products(&sums[0][0], 4 * eights);
#elif defined(PAGODA_WARPGROUPS)
#pragma unroll
  for (int i = 0; i < eights; ++i)  // the compiler has them in their registers before
    asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Likewise, followed by the threads' own left matrices.
template <int eights, int steps>
__device__ __forceinline__ void fence_products(float (&sums)[eights][4], std::uint32_t (&left)[steps][4]) {
#if defined(PAGODA_WARPGROUPS)
#pragma unroll
  for (int i = 0; i < steps; ++i)
    asm volatile("" : "+r"(left[i][0]), "+r"(left[i][1]), "+r"(left[i][2]), "+r"(left[i][3])::"memory");
#else
  static_cast<void>(left);
#endif
  fence_products(sums);
}

// Called after wait_for_products(): nothing may read the sums before.
template <int eights>
__device__ __forceinline__ void take_products(float (&sums)[eights][4]) {
#if defined(PAGODA_WARPGROUPS)
#pragma unroll
  for (int i = 0; i < eights; ++i)
    asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])::"memory");
#else
  static_cast<void>(sums);
#endif
}

#if defined(PAGODA_WARPGROUPS)
// K-major lines of 128 bytes, with pieces of 16 swizzled in each 1,024 bytes.
__device__ __forceinline__ std::uint64_t matrix_at(const void* first) {
  return static_cast<std::uint64_t>((shared_address(first) & 0x3FFFFu) >> 4) | std::uint64_t{1} << 16 |
         std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
}
// The matrix `bytes` further on: a computed descriptor serves several products.
__device__ __forceinline__ std::uint64_t further(std::uint64_t matrix, int bytes) {
  const auto low = static_cast<std::uint32_t>(matrix) + static_cast<std::uint32_t>(bytes >> 4);
  return (matrix & 0xFFFFFFFF00000000u) | low;
}
#endif

// sums (64 x 8 * eights) += a (64 x 16) * b (8 * eights x 16)^T: 16 of k, 32 bytes from `a` and `b` on, in
// lines of 128 bytes in the order of swizzled(), from a multiple of 1,024 bytes on. The threads of a
// warpgroup have the rows of four warps' multiply_matrices(), one below the other. None of it may be touched
// until wait_for_products(). Not `adds`: starts from zero, whatever the sums were.
#define PAGODA_WGMMA(columns, words, a, b, ...)                                              \
  asm volatile(                                                                              \
      "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, 1, 0;\n\t"                                   \
      "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.bf16.bf16 {" words "}, " a ", " b \
      ", add, 1, 1, 0, 0;\n\t}"                                                              \
      : __VA_ARGS__                                                                          \
      : "l"(matrix_at(left)), "l"(matrix_at(right))                                          \
      : "memory")
template <int eights>
__device__ __forceinline__ void multiply_warpgroup(float (&s)[eights][4], const void* left, const void* right)
  requires(eights != 8)
{
#ifndef __CUDACC__
  emulated::multiply_warpgroup(&s[0][0], 8 * eights, true, left, right);
#elif defined(PAGODA_WARPGROUPS)
  if constexpr (eights == 4)
    PAGODA_WGMMA("32", PAGODA_WORDS_16, "%16", "%17", PAGODA_EIGHTS_4(0));
  else if constexpr (eights == 6)
    PAGODA_WGMMA("48", PAGODA_WORDS_24, "%24", "%25", PAGODA_EIGHTS_4(0), PAGODA_EIGHT(4), PAGODA_EIGHT(5));
  else if constexpr (eights == 14)
    PAGODA_WGMMA("112", PAGODA_WORDS_56, "%56", "%57", PAGODA_EIGHTS(0), PAGODA_EIGHTS_4(8), PAGODA_EIGHT(12),
                 PAGODA_EIGHT(13));
  else if constexpr (eights == 16)
    PAGODA_WGMMA("128", PAGODA_WORDS_64, "%64", "%65", PAGODA_EIGHTS(0), PAGODA_EIGHTS(8));
  else {
    static_assert(eights == 32);
    PAGODA_WGMMA("256", PAGODA_WORDS_128, "%128", "%129", PAGODA_EIGHTS(0), PAGODA_EIGHTS(8),
                 PAGODA_EIGHTS(16), PAGODA_EIGHTS(24));
  }
#endif
}
#undef PAGODA_WGMMA

// `at`: byte offset added to a and b.
template <bool adds = true>
__device__ __forceinline__ void multiply_warpgroup(float (&s)[8][4], const void* a, const void* b,
                                                   int at = 0) {
#ifndef __CUDACC__
  emulated::multiply_warpgroup(&s[0][0], 64, adds, static_cast<const unsigned char*>(a) + at,
                               static_cast<const unsigned char*>(b) + at);
#elif defined(PAGODA_WARPGROUPS)
  asm volatile(
      "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, %34, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" PAGODA_WORDS_32
      "}, "
      "%32, %33, add, 1, 1, 0, 0;\n\t}"
      : PAGODA_EIGHTS(0)
      : "l"(further(matrix_at(a), at)), "l"(further(matrix_at(b), at)), "n"(adds ? 1 : 0)
      : "memory");
#endif
}

#if defined(PAGODA_WARPGROUPS)
// Lines of 64 columns, 128 bytes, swizzled in each 1,024 bytes; the next 64 columns are `apart` bytes
// further.
__device__ __forceinline__ std::uint64_t lines_at(const void* first, unsigned apart) {
  return static_cast<std::uint64_t>((shared_address(first) & 0x3FFFFu) >> 4) |
         static_cast<std::uint64_t>(apart >> 4) << 16 | std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
}
#endif

// sums (64 x 8 * eights) += a (64 x 16) * b (16 x 8 * eights). Each thread has the same part of `a` as in
// multiply_matrices(). b is 16 lines of 128 bytes, 64 columns each, from a multiple of 1,024 bytes on,
// swizzled as above; the next 64 columns are `apart` bytes further, a multiple of 1,024. `at`: byte offset
// added to b.
template <bool adds = true>
__device__ __forceinline__ void multiply_lines(float (&s)[8][4], const std::uint32_t (&a)[4], const void* b,
                                               unsigned apart, int at) {
#ifndef __CUDACC__
  emulated::multiply_warpgroup(&s[0][0], 64, adds, a, static_cast<const unsigned char*>(b) + at, apart);
#elif defined(PAGODA_WARPGROUPS)
  asm volatile(
      "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, %37, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" PAGODA_WORDS_32
      "}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n\t}"
      : PAGODA_EIGHTS(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(further(lines_at(b, apart), at)), "n"(adds ? 1 : 0)
      : "memory");
#endif
}
template <bool adds = true>
__device__ __forceinline__ void multiply_lines(float (&s)[16][4], const std::uint32_t (&a)[4], const void* b,
                                               unsigned apart, int at) {
#ifndef __CUDACC__
  emulated::multiply_warpgroup(&s[0][0], 128, adds, a, static_cast<const unsigned char*>(b) + at, apart);
#elif defined(PAGODA_WARPGROUPS)
  asm volatile(
      "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, %69, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" PAGODA_WORDS_64
      "}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n\t}"
      : PAGODA_EIGHTS(0), PAGODA_EIGHTS(8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(further(lines_at(b, apart), at)), "n"(adds ? 1 : 0)
      : "memory");
#endif
}

// Groups this warp's products since the last call.
__device__ __forceinline__ void commit_products() {
#ifndef __CUDACC__
  emulated::commit_products();
#elif defined(PAGODA_WARPGROUPS)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most the `left` latest groups are in flight.
template <int left>
__device__ __forceinline__ void wait_for_products() {
#ifndef __CUDACC__
  emulated::wait_for_products(left);
#elif defined(PAGODA_WARPGROUPS)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
#endif
}

}  // namespace pagoda::device::kernels
