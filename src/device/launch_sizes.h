#pragma once
// The files of launches share this: sizes as a launch has them, and the limit of shared memory.
#include <cstdint>

#include "device/kernels/launch_shapes.h"

namespace pagoda::device {

inline std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// A limit of choices.def.
constexpr bool fits(std::uint32_t shared_bytes) { return shared_bytes <= kMaxSharedBytes; }

}  // namespace pagoda::device
