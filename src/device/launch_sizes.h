#pragma once
// Shared by the launch files: sizes as launches take them, and the limit of shared memory.
#include <cstdint>

#include "device/kernels/launch_shapes.h"

namespace pagoda::device {

inline std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// For the limits in choices.def.
constexpr bool fits(std::uint32_t shared_bytes) { return shared_bytes <= kMaxSharedBytes; }

}  // namespace pagoda::device
