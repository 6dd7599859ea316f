#pragma once
// Kernels with one fault each, and their correct forms, for the emulator's own test. Each adds 64 numbers, or
// copies them.
#include <array>
#include <cstdint>

#include "device/device.h"

namespace pagoda::device::emulated {

// True if this build checks kernels for faults.
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
// Two blocks share copies, and in some orders one ends before the other has received its copies.
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
  const char* message;  // part of it; null: the kernel is correct
};
std::span<const PlantedProduct> planted_products();
// Likewise by one block of 128 threads, which have `a` in their registers: out = sum over rounds of a * b.
// The first is correct, and the second starts from zero in each round.
std::span<const PlantedProduct> planted_lines();
// Its sums are read before it waits for them.
Kernel product_that_is_early();

// A warp's product whose fragments are filled and read element by element, as documented in the PTX ISA.
struct FragmentArgs {
  const float *a = nullptr, *b = nullptr;  // [16][16], [16][8]
  float* out = nullptr;                    // [16][8]
  int by_rows = 0;                         // a and b are loaded by load_matrices
};
Kernel product_of_fragments();

}  // namespace pagoda::device::emulated
