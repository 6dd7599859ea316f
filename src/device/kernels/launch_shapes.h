#pragma once
// The sizes that kernels and those who launch them agree on.
#include <cstdint>

namespace pagoda::device {

inline constexpr std::int32_t kRowThreads = 128;  // of a row's block (rows.cuh)

inline constexpr std::int32_t kLinearTile = 16, kLinearDepth = 32;
inline constexpr std::uint32_t kLinearSharedBytes = 2 * kLinearTile * (kLinearDepth + 1) * sizeof(float);

// Of a row's choice of experts (mixture.cuh).
inline std::uint32_t route_shared_bytes(std::int32_t experts, std::int32_t groups) {
  return static_cast<std::uint32_t>(3 * experts + 2 * groups) * static_cast<std::uint32_t>(sizeof(float));
}

inline constexpr std::int32_t kSampleThreads = 256;  // of a row of logits (sampling.cuh)
inline constexpr std::uint32_t kSampleSharedBytes = (kSampleThreads + 4) * sizeof(std::uint64_t);

}  // namespace pagoda::device
