#include "models/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/tiles.h"

namespace pagoda {

namespace {

// Of pairs 0 .., the first that is slowed down at all and the first that is slowed down by the whole factor.
std::pair<double, double> yarn_blend(const RopeConfig& config) {
  const auto pair_of = [&](double turns) {
    return config.rotary_size * std::log(config.original_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(static_cast<double>(config.theta)));
  };
  double first = pair_of(config.beta_fast), last = pair_of(config.beta_slow);
  if (config.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, config.rotary_size - 1.0);
  return {first, first == last ? last + 0.001 : last};
}

}  // namespace

std::vector<double> rope_frequencies(const RopeConfig& config, std::span<const float> factors) {
  std::vector<double> frequencies(static_cast<std::size_t>(config.rotary_size / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency =
        std::pow(static_cast<double>(config.theta), -2.0 * static_cast<double>(i) / config.rotary_size);
    if (!factors.empty()) {  // a file that brings factors has the scaling in them
      frequency /= factors[i];
    } else if (config.scaling == RopeScaling::linear) {
      frequency /= config.factor;
    } else if (config.scaling == RopeScaling::llama3) {
      const double turns = config.original_positions * frequency / (2 * std::numbers::pi);
      const double smooth = std::clamp(
          (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor), 0.0, 1.0);
      frequency = (1 - smooth) * frequency / config.factor + smooth * frequency;
    } else if (config.scaling == RopeScaling::yarn) {
      const auto [first, last] = yarn_blend(config);
      const double slowed = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
      frequency = slowed * frequency / config.factor + (1 - slowed) * frequency;
    }
    if (factors.empty() && !config.divisors.empty()) frequency /= config.divisors[i];
    if (config.turned > 0 && 2 * i >= static_cast<std::size_t>(config.turned)) frequency = 0;
    frequencies[i] = frequency;
  }
  return frequencies;
}

Result<RopeTable> RopeTable::create(const RopeConfig& config, std::span<const float> factors,
                                    std::int32_t max_positions) {
  RopeTable table;
  table.frequencies_ = rope_frequencies(config, factors);
  table.amplitude_ = config.attention_factor;
  table.max_positions_ = max_positions;
  auto memory = Memory::reserve(static_cast<std::size_t>(max_positions) * table.frequencies_.size() * 2 *
                                sizeof(float));
  if (!memory) return memory.error();
  table.memory_ = *std::move(memory);
  return table;
}

const float* RopeTable::rows(const KernelContext& context, std::int32_t num_positions) {
  CHECK(num_positions <= max_positions_);
  auto* table = memory_.as<float>();
  if (num_positions > num_filled_) {
    constexpr std::int32_t kStep = 64;
    const std::int32_t first = num_filled_;
    const std::int32_t last = std::min((num_positions + kStep - 1) / kStep * kStep, max_positions_);
    const std::size_t half = frequencies_.size();
    const auto fill = [&](std::int64_t tile, int) {
      const auto position = static_cast<std::int32_t>(first + tile);
      float* row = table + static_cast<std::size_t>(position) * 2 * half;
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = position * frequencies_[i];
        row[i] = static_cast<float>(amplitude_ * std::cos(angle));
        row[half + i] = static_cast<float>(amplitude_ * std::sin(angle));
      }
    };
    for_tiles(context, last - first, fill);
    num_filled_ = last;
  }
  return table;
}

}  // namespace pagoda
