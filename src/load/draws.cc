#include "load/draws.h"

#include <cmath>
#include <numbers>

#include "base/random.h"

namespace pagoda {

Draws::Draws(std::uint64_t seed, Stream stream, std::uint64_t item)
    : seed_(seed), stream_(mix64(static_cast<std::uint64_t>(stream)) ^ item) {}

std::uint64_t Draws::bits() { return random_bits(seed_, stream_, position_++); }

double Draws::uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

std::int64_t Draws::between(std::int64_t low, std::int64_t high) {
  // Uses the upper half of a 128-bit product instead of a remainder: the bias would not show in 2^64 draws.
  const auto width = static_cast<unsigned __int128>(high - low) + 1;
  return low + static_cast<std::int64_t>((width * bits()) >> 64);
}

double Draws::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double Draws::exponential() { return -std::log(1 - uniform()); }

double Draws::gamma(double shape) {
  if (shape == 1) return exponential();
  if (shape < 1) {
    // Gamma(a) = Gamma(a + 1) U^(1/a).
    const double larger = gamma(shape + 1);
    return larger * std::pow(1 - uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {  // accepts at least 95 % of the draws
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace pagoda
