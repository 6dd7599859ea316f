// Products of planted_kernels.h whose left matrix is the threads' own, compiled as the kernels of kernels/
// are.
#include <array>

#include "device/emulated/planted_kernels.h"
#include "device/kernels/tile_words.cuh"
#include "device/kernels/warpgroup_words.cuh"

namespace pagoda::device::emulated {
namespace {

// A block by itself, whose threads bring `b` as it lies, and have their parts of `a`. Each fault leaves one
// thing away, or does it at the wrong place.
enum class Off { nothing, show, begin, fence, zero };
constexpr int kBytes = 64 * 128;

template <Off off>
__global__ void product_of_lines(PlantedProductArgs args) {
  kernels::begin_kernel();
  PAGODA_SWIZZLED_SHARED(unsigned char, shared);
  const unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  float sums[8][4] = {};
  for (int round = 0; round < args.rounds; ++round) {
    const auto from = [&](const std::uint16_t* matrix) {
      return reinterpret_cast<const unsigned char*>(matrix) + kBytes * round;
    };
    for (unsigned i = threadIdx.x; i < kBytes / 16; i += 128)
      kernels::copy_async(shared + 16 * i, from(args.b) + 16 * i, true);
    kernels::copies_commit();
    kernels::copies_wait<0>();
    if (off != Off::show) kernels::show_writes();
    __syncthreads();
    std::uint32_t a[4][4];
    for (unsigned step = 0; step < 4; ++step)
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned line = row + i % 2 * 8, piece = 2 * step + i / 2;
        a[step][i] = kernels::load_whole<std::uint32_t>(from(args.a) + line * 128 + (piece ^ line % 8) * 16 +
                                                        lane % 4 * 4);
      }
    if (off != Off::fence) kernels::fence_products(sums, a);
    for (int step = 0; step < 4; ++step) {
      const int at = step * 16 * 128 + (off == Off::begin ? 32 : 0);
      if (off == Off::zero && step == 0)
        kernels::multiply_lines<false>(sums, a[step], shared, 0, at);
      else
        kernels::multiply_lines(sums, a[step], shared, 0, at);
    }
    kernels::commit_products();
    kernels::wait_for_products<0>();
    kernels::take_products(sums);
    __syncthreads();
  }
  for (unsigned n = 0; n < 8; ++n)
    for (unsigned i = 0; i < 4; ++i)
      args.out[(row + i / 2 * 8) * 64 + 8 * n + lane % 4 * 2 + i % 2] = sums[n][i];
}

template <Off off>
void invoke(const void* args) {
  kernels::begin_kernel();
  product_of_lines<off>(*static_cast<const PlantedProductArgs*>(args));
}

template <Off off>
Kernel entry(const char* name) {
  return {name, reinterpret_cast<const void*>(&invoke<off>), sizeof(PlantedProductArgs)};
}

const std::array<PlantedProduct, 5> planted = {{
    {entry<Off::nothing>("lines"), nullptr},
    {entry<Off::zero>("lines_zero"), nullptr},
    {entry<Off::show>("lines_show"), "which a thread wrote without showing it to the asynchronous proxy"},
    {entry<Off::begin>("lines_begin"), "lines that do not begin at a multiple of 1,024 bytes"},
    {entry<Off::fence>("lines_fence"), "into sums that were changed without a fence of products"},
}};

}  // namespace

std::span<const PlantedProduct> planted_lines() { return planted; }

}  // namespace pagoda::device::emulated
