#pragma once
// Counter-based random numbers: the value depends only on (seed, stream, position), never on earlier draws.
// Therefore a seeded sequence gets the same text in any batch, after preemption or a fork.
// Not cryptographic. Source of the mixer: SplitMix64 (Steele et al., OOPSLA'14).
#include <cstdint>

namespace pagoda {

inline std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
  return mix64(mix64(mix64(seed) ^ stream) ^ position);
}

// Uniform in [0, 1), 53 bits.
inline double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
  return static_cast<double>(random_bits(seed, stream, position) >> 11) * 0x1.0p-53;
}

}  // namespace pagoda
