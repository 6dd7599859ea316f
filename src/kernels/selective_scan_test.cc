// Goal: the selective scan agrees with the reference for every instruction set and shape, far from zero, too;
// and its bits depend on the sequence alone (state_testing.h).
#include "kernels/selective_scan.h"

#include <gtest/gtest.h>

#include "kernels/state_testing.h"

namespace pagoda {
namespace {

struct ScanShape {
  std::int64_t channels = 32;
  std::int32_t size = 16;
  float steps = 4;  // beyond which none lies from 0

  std::size_t width() const { return static_cast<std::size_t>(channels); }
  std::size_t state_size() const { return width() * static_cast<std::size_t>(size); }
};

class ScanWorld : public StateWorld {
 public:
  ScanWorld(const ScanShape& shape, std::size_t sequences, std::int32_t length)
      : StateWorld(sequences, length, shape.width(), shape.state_size(),
                   static_cast<std::size_t>(kScanChannels * shape.size)),
        shape_(shape),
        rates_(random_floats(7, shape.state_size(), 3)),
        skip_(random_floats(8, shape.width())) {
    for (float& rate : rates_) rate = -std::fabs(rate);
  }

  // The output takes the place of the steps if `in_place`.
  void step(const KernelContext& context, const std::vector<StatePart>& parts, bool in_place = false) {
    const std::size_t stride = 2 * shape_.width() + 2 * static_cast<std::size_t>(shape_.size) + 3;
    std::vector<float> entered, made;
    const auto enter = [&](std::size_t sequence, std::uint64_t position) {
      std::vector<float> row = random_floats(position * 16 + sequence, stride);
      for (std::size_t c = 0; c < shape_.width(); ++c) row[c] *= shape_.steps;
      entered.insert(entered.end(), row.begin(), row.end());
    };
    StateWorld::step(parts, enter, [&](const LayerStates& states, std::int32_t num_rows) {
      made.resize(static_cast<std::size_t>(num_rows) * shape_.width());
      const Buffer inputs = Buffer::of(entered.data(), static_cast<std::int64_t>(stride));
      const Buffer output = in_place ? inputs : Buffer::of(made.data(), shape_.channels);
      selective_scan(context, {.num_channels = shape_.channels,
                               .state_size = shape_.size,
                               .rate = rates_.data(),
                               .skip = skip_.data(),
                               .step = inputs,
                               .value = inputs.at(0, shape_.channels),
                               .key = inputs.at(0, 2 * shape_.channels),
                               .query = inputs.at(0, 2 * shape_.channels + shape_.size),
                               .output = output,
                               .states = states,
                               .piece = 0});
      return output;
    });
  }

 private:
  ScanShape shape_;
  std::vector<float> rates_, skip_;
};

const ScanShape kScanShapes[] = {
    {},
    {.channels = 600, .size = 16},
    {.channels = 25, .size = 7},
    {.channels = 16, .size = 1},
    {.channels = 48, .size = 128},
    {.channels = 32, .size = 16, .steps = 100},
};

TEST(SelectiveScan, AgreesWithReference) {
  for (const ScanShape& shape : kScanShapes) expect_as_reference<ScanWorld>(shape, 2e-5f, 2e-5f);
}

// Also when the output takes the place of the steps.
TEST(SelectiveScan, BitsDependOnTheSequenceAlone) {
  for (const ScanShape& shape : kScanShapes)
    expect_bits_of_the_sequence_alone<ScanWorld>(shape, /*in_place=*/true);
}

}  // namespace
}  // namespace pagoda
