#pragma once
// Kernels with a fault in each, and their right forms, for the emulator's own test. Each adds up 64 numbers,
// or copies them.
#include <array>
#include <cstdint>

#include "device/device.h"

namespace pagoda::device::emulated {

// Whether this build looks for faults of kernels.
#ifdef PAGODA_DEVICE_UNCHECKED
inline constexpr bool kChecked = false;
#else
inline constexpr bool kChecked = true;
#endif

struct PlantedArgs {
  const float* in = nullptr;
  float* out = nullptr;
  unsigned* count = nullptr;
  std::int32_t size = 0;
};

// right or wrong: `good` of the pair
struct Planted {
  const char* what;
  Kernel kernel;
  bool good;
  std::uint32_t blocks = 1;
  const char* message = "";  // part of it
  std::uint32_t cluster = 1;
};
std::span<const Planted> planted_kernels();
// Two blocks share copies, and one may end before the other has what it brought: in some orders.
Kernel kernel_that_leaves_early();

// Products of a warpgroup (kernels/warpgroup_words.cuh) by blocks of kProductThreads in clusters of two:
// out (64 x 64) = sum over rounds of a (64 x 64) * b (64 x 64)^T. Each with a fault, and without.
struct PlantedProductArgs {
  const std::uint16_t *a = nullptr, *b = nullptr;  // [rounds][64][64], bfloat16, pieces of 16 bytes swizzled
  float* out = nullptr;                            // [64][64]
  std::int32_t rounds = 0;
};
inline constexpr std::uint32_t kProductThreads = 192, kProductSharedBytes = 4 * 8192 + 6 * 8;
struct PlantedProduct {
  Kernel kernel;
  const char* message;  // part of it; null: it is right
};
std::span<const PlantedProduct> planted_products();
// The same by one block of 128 threads, which have `a` in their registers: out = sum over rounds of a * b.
// The first is right, and the second begins anew each round.
std::span<const PlantedProduct> planted_lines();
// Its sums are read before they are waited for.
Kernel product_that_is_early();

// A warp's product whose fragments are filled and read element by element, as the PTX ISA has them.
struct FragmentArgs {
  const float *a = nullptr, *b = nullptr;  // [16][16], [16][8]
  float* out = nullptr;                    // [16][8]
  int by_rows = 0;                         // a and b come by load_matrices
};
Kernel product_of_fragments();

}  // namespace pagoda::device::emulated
