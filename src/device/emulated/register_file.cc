#include "device/emulated/register_file.h"

#include <algorithm>

namespace pagoda::device::emulated {
namespace {

struct Uses {
  std::string_view kernel;
  std::uint32_t registers;
};
constexpr Uses kUses[] = {
#include "device/kernel_registers.inc"  // generated from cuda/resources.txt by flags.cmake
};

// Compute capability 8.0 to 9.0. Registers are allocated to a warp in units of 256.
constexpr std::uint64_t kOfBlock = 65536, kUnit = 256 / 32;

}  // namespace

std::uint32_t registers_of(std::string_view kernel) {
  std::uint32_t most = 0;
  for (const Uses& uses : kUses)
    if (uses.kernel == kernel) most = std::max(most, uses.registers);
  return most;
}

bool has_registers(std::string_view kernel, std::uint64_t threads) {
  return threads * ((registers_of(kernel) + kUnit - 1) / kUnit * kUnit) <= kOfBlock;
}

}  // namespace pagoda::device::emulated
