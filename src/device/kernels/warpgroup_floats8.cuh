#pragma once
// Products of warpgroups (warpgroup_words.cuh) of 8-bit floats, e4m3 by e4m3, with sums in f32: 32 of k at
// once, in as many bytes as 16 of bfloat16. Hardware keeps 13 bits after the leading bit of a step's largest
// term (arXiv 2511.10909), so that no other instruction gives the same sums. The sum of an element does not
// depend on the number of columns or its position among them: float8_check.h tests this on each device.
#include "device/kernels/warpgroup_words.cuh"

namespace pagoda::device::kernels {

#define PAGODA_WGMMA(columns, words, left, right, from, ...)                                                 \
  asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.b32 add, " from                                              \
               ", 0;\n\t"                                                                                    \
               "wgmma.mma_async.sync.aligned.m64n" columns "k32.f32.e4m3.e4m3 {" words "}, " left ", " right \
               ", add, 1, 1;\n\t}"                                                                           \
               : __VA_ARGS__                                                                                 \
               : "l"(further(matrix_at(a), at)), "l"(further(matrix_at(b), at)), "n"(adds ? 1 : 0)           \
               : "memory")

// sums (64 x 8 * eights) = (adds: sums +) a (64 x 32) * b (8 * eights x 32)^T, `at` bytes from a and b on,
// which are laid out as for multiply_warpgroup().
template <bool adds, int eights>
__device__ __forceinline__ void multiply_warpgroup_floats8(float (&s)[eights][4], const void* a,
                                                           const void* b, int at) {
#ifndef __CUDACC__
  emulated::multiply_warpgroup_floats8(&s[0][0], 8 * eights, adds, static_cast<const unsigned char*>(a) + at,
                                       static_cast<const unsigned char*>(b) + at);
#elif defined(PAGODA_WARPGROUPS)
  if constexpr (eights == 4)
    PAGODA_WGMMA("32", PAGODA_WORDS_16, "%16", "%17", "%18", PAGODA_EIGHTS_4(0));
  else if constexpr (eights == 6)
    PAGODA_WGMMA("48", PAGODA_WORDS_24, "%24", "%25", "%26", PAGODA_EIGHTS_4(0), PAGODA_EIGHT(4),
                 PAGODA_EIGHT(5));
  else if constexpr (eights == 8)
    PAGODA_WGMMA("64", PAGODA_WORDS_32, "%32", "%33", "%34", PAGODA_EIGHTS(0));
  else if constexpr (eights == 14)
    PAGODA_WGMMA("112", PAGODA_WORDS_56, "%56", "%57", "%58", PAGODA_EIGHTS(0), PAGODA_EIGHTS_4(8),
                 PAGODA_EIGHT(12), PAGODA_EIGHT(13));
  else if constexpr (eights == 16)
    PAGODA_WGMMA("128", PAGODA_WORDS_64, "%64", "%65", "%66", PAGODA_EIGHTS(0), PAGODA_EIGHTS(8));
  else {
    static_assert(eights == 24);
    PAGODA_WGMMA("192", PAGODA_WORDS_96, "%96", "%97", "%98", PAGODA_EIGHTS(0), PAGODA_EIGHTS(8),
                 PAGODA_EIGHTS(16));
  }
#endif
}
#undef PAGODA_WGMMA

}  // namespace pagoda::device::kernels
