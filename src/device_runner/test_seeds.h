#pragma once
// For tests: the number of orders of a device's streams to try, set by PAGODA_DEVICE_SEEDS=200.
#include <cstdint>
#include <cstdlib>

namespace pagoda::device_runner {

inline std::uint64_t num_seeds() {
  const char* const given = std::getenv("PAGODA_DEVICE_SEEDS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20;
}

}  // namespace pagoda::device_runner
