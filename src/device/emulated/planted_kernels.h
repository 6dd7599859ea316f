#pragma once
// Kernels with a fault in each, and their right forms, for the emulator's own test. Each adds up 64 numbers,
// or copies them.
#include <array>
#include <cstdint>

#include "device/device.h"

namespace pagoda::device::emulated {

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
};
std::span<const Planted> planted_kernels();

}  // namespace pagoda::device::emulated
