#pragma once
// Largest values of flags that have no narrower limit.
#include <cstdint>
#include <limits>

namespace pagoda {

inline constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();
inline constexpr double kMaxSeconds = 86'400;
inline constexpr std::int32_t kMaxThreads = 1024, kMaxRanks = 64;

}  // namespace pagoda
