#pragma once
// The sizes that kernels and those who launch them agree on.
#include <cstdint>

namespace pagoda::device {

inline constexpr std::int32_t kRowThreads = 128;  // of a row's block (rows.cuh)

inline constexpr std::int32_t kLinearTile = 16, kLinearDepth = 32;
inline constexpr std::uint32_t kLinearSharedBytes = 2 * kLinearTile * (kLinearDepth + 1) * sizeof(float);

inline constexpr std::int32_t kSampleThreads = 256;  // of a row of logits (sampling.cuh)
inline constexpr std::uint32_t kSampleSharedBytes = (kSampleThreads + 4) * sizeof(std::uint64_t);

}  // namespace pagoda::device
