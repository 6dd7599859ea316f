#pragma once
// DevicePart: rows of a matrix on a device with one element type.
#include <cstddef>
#include <cstdint>

namespace pagoda::device {
enum class Element : std::uint8_t;
}

namespace pagoda {

struct DevicePart {
  device::Element element = {};
  const std::byte* weight = nullptr;  // [n, k]
  const float* bias = nullptr;        // [n], or null
  std::int32_t n = 0;
};

}  // namespace pagoda
