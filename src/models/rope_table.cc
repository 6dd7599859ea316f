#include "models/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/assign_or_return.h"
#include "kernels/rows.h"

namespace pagoda {

namespace {

// Returns, among pairs 0 .., the first pair that is slowed at all, and the first that is slowed by the whole
// factor.
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

std::vector<double> rope_frequencies(const RopeConfig& config, std::span<const float> factors,
                                     std::int32_t rotation) {
  std::vector<double> frequencies(static_cast<std::size_t>(config.rotary_size / 2));
  const bool is_long = rotation != 0 && config.scaling == RopeScaling::longrope;
  const std::vector<float>& divisors = is_long ? config.long_divisors : config.divisors;
  double theta = config.theta;
  if (rotation > config.original_positions && config.scaling == RopeScaling::dynamic) {
    const double size = config.rotary_size, times = static_cast<double>(rotation) / config.original_positions;
    theta *= std::pow(config.factor * times - (config.factor - 1), size / (size - 2));
  }
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / config.rotary_size);
    if (!factors.empty()) frequency /= factors[i];
    if (config.scaling == RopeScaling::linear) {
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
    if (factors.empty() && !divisors.empty()) frequency /= divisors[i];
    if (config.turned > 0 && 2 * i >= static_cast<std::size_t>(config.turned)) frequency = 0;
    frequencies[i] = frequency;
  }
  return frequencies;
}

Result<RopeTable> RopeTable::create(const KernelContext& context, const RopeConfig& config,
                                    std::span<const float> factors, std::int32_t max_positions,
                                    std::span<const float> long_factors, std::int32_t max_rows) {
  RopeTable table;
  table.config_ = config;
  table.factors_.assign(factors.begin(), factors.end());
  table.long_factors_.assign(long_factors.begin(), long_factors.end());
  table.frequencies_ = rope_frequencies(config, factors);
  table.amplitude_ = config.attention_factor;
  table.max_positions_ = max_positions;
  const auto width = static_cast<std::int64_t>(2 * table.frequencies_.size());
  PAGODA_ASSIGN_OR_RETURN(table.memory_, PlacedMemory::reserve(context, max_positions * width, "rotations"));
  if (!depends_on_length(config) || max_rows == 0) return table;
  PAGODA_ASSIGN_OR_RETURN(table.own_, PlacedMemory::reserve(context, max_rows * width, "rotations"));
  return table;
}

Buffer RopeTable::in(const PlacedMemory& memory) const {
  return {.data = memory.data(), .stride = static_cast<std::int64_t>(2 * frequencies_.size())};
}

void RopeTable::prepare(const KernelContext& context, std::span<const std::int32_t> positions,
                        std::span<const std::int32_t> rotations) {
  own_rows_ = !rotations.empty() && own_.size() > 0;
  if (!own_rows_) return void(rows(context, *std::ranges::max_element(positions) + 1));
  CHECK(rotations.size() == positions.size());
  row_numbers_.resize(rotations.size());
  std::iota(row_numbers_.begin(), row_numbers_.end(), 0);
  for (std::size_t begin = 0; begin < rotations.size();) {  // a run of rows with the same rotation
    std::size_t end = begin;
    while (end < rotations.size() && rotations[end] == rotations[begin]) ++end;
    const bool is_long = rotations[begin] != 0 && !long_factors_.empty();
    const std::vector<double> frequencies =
        rope_frequencies(config_, is_long ? long_factors_ : factors_, rotations[begin]);
    fill_rotations(context, positions.subspan(begin, end - begin), frequencies, amplitude_,
                   in(own_).at(static_cast<std::int64_t>(begin)));
    begin = end;
  }
}

RopeRows RopeTable::of_rows(const KernelContext& context, std::span<const std::int32_t> positions,
                            std::int64_t first) {
  if (!own_rows_) return {positions, rows(context, *std::ranges::max_element(positions) + 1)};
  return {std::span(row_numbers_).subspan(static_cast<std::size_t>(first), positions.size()), in(own_)};
}

Buffer RopeTable::rows(const KernelContext& context, std::int32_t num_positions) {
  CHECK(num_positions <= max_positions_);
  const Buffer table = in(memory_);
  if (num_positions > num_filled_) {
    constexpr std::int32_t kStep = 64;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(
        std::min((num_positions + kStep - 1) / kStep * kStep, max_positions_) - num_filled_));
    std::iota(positions.begin(), positions.end(), num_filled_);
    fill_rotations(context, positions, frequencies_, amplitude_, table.at(num_filled_));
    num_filled_ += static_cast<std::int32_t>(positions.size());
  }
  return table;
}

}  // namespace pagoda
