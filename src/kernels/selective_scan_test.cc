// Goal: the selective scan agrees with the reference for every instruction set and shape, far from zero, too;
// and a row's bits, and the state's, depend on the sequence alone: not on how its rows are cut into steps, on
// drafts that came and went, on what is copied in passing, on the rest of the batch, or the threads.
#include "kernels/selective_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/testing.h"

namespace pagoda {
namespace {

struct Shape {
  std::int64_t channels = 32;
  std::int32_t size = 16;
  float steps = 4;  // beyond which none lies from 0
};

// A step's work on one sequence.
struct Part {
  std::size_t sequence = 0;
  std::int32_t rows = 0, drafts = 0;
  std::vector<std::int32_t> stores = {};  // after so many rows
};

// Sequences whose rows depend on (sequence, position) alone, with the states that are kept of them.
class World {
 public:
  World(const Shape& shape, std::size_t sequences, std::int32_t length) : shape_(shape) {
    for (std::size_t s = 0; s < sequences; ++s) {
      states_.emplace_back(state_size(), std::numeric_limits<float>::quiet_NaN());  // fresh: means nothing
      computed_.push_back(0);
      outputs_.emplace_back(static_cast<std::size_t>(length) * width());
    }
    rates_ = random_floats(7, state_size(), 3);
    for (float& rate : rates_) rate = -std::fabs(rate);
    skip_ = random_floats(8, width());
  }

  // Drafts are wrong: their rows are those of other positions. Copies in passing go to stored(). The output
  // takes the place of the steps if `in_place`.
  void step(const KernelContext& context, const std::vector<Part>& parts, bool in_place = false) {
    const std::size_t stride = 2 * width() + 2 * static_cast<std::size_t>(shape_.size) + 3;
    std::vector<float> entered;
    std::vector<StateSequence> sequences;
    std::vector<std::vector<float*>> pieces(parts.size());
    std::vector<std::vector<StateStore>> stores(parts.size());
    std::size_t num_stores = 0, next_store = 0;
    for (const Part& part : parts) num_stores += part.stores.size();
    stored_.assign(num_stores, std::vector<float>(state_size()));
    std::vector<std::vector<float*>> store_pieces(num_stores);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const Part& part = parts[p];
      pieces[p] = pieces_of(states_[part.sequence]);
      for (const std::int32_t after : part.stores) {
        store_pieces[next_store] = pieces_of(stored_[next_store]);
        stores[p].push_back({.num_rows = after, .pieces = store_pieces[next_store].data()});
        ++next_store;
      }
      sequences.push_back({.first_row = static_cast<std::int32_t>(entered.size() / stride),
                           .num_rows = part.rows + part.drafts,
                           .num_drafts = part.drafts,
                           .fresh = computed_[part.sequence] == 0,
                           .pieces = pieces[p].data(),
                           .stores = stores[p]});
      for (std::int32_t i = 0; i < part.rows + part.drafts; ++i) {
        const auto position =
            static_cast<std::uint64_t>(computed_[part.sequence] + i) + (i < part.rows ? 0 : 500);
        std::vector<float> row = random_floats(position * 16 + part.sequence, stride);
        for (std::size_t c = 0; c < width(); ++c) row[c] *= shape_.steps;
        entered.insert(entered.end(), row.begin(), row.end());
      }
    }
    const auto channels = static_cast<std::int64_t>(width());
    const Buffer inputs = Buffer::of(entered.data(), static_cast<std::int64_t>(stride));
    std::vector<float> made(entered.size() / stride * width());
    const Buffer output = in_place ? inputs : Buffer::of(made.data(), channels);
    selective_scan(context, {.num_channels = shape_.channels,
                             .state_size = shape_.size,
                             .rate = rates_.data(),
                             .skip = skip_.data(),
                             .step = inputs,
                             .value = inputs.at(0, channels),
                             .key = inputs.at(0, 2 * channels),
                             .query = inputs.at(0, 2 * channels + shape_.size),
                             .output = output,
                             .states = {.sequences = sequences, .first_piece = 1},
                             .piece = 0});
    std::int64_t row = 0;
    for (const Part& part : parts) {
      for (std::int32_t i = 0; i < part.rows + part.drafts; ++i, ++row)
        if (i < part.rows)
          std::copy_n(floats(output, row), width(),
                      outputs_[part.sequence].begin() +
                          static_cast<std::ptrdiff_t>(width()) * (computed_[part.sequence] + i));
      computed_[part.sequence] += part.rows;
    }
  }

  const std::vector<float>& output(std::size_t sequence) const { return outputs_[sequence]; }
  const std::vector<float>& state(std::size_t sequence) const { return states_[sequence]; }
  const std::vector<std::vector<float>>& stored() const { return stored_; }

 private:
  std::size_t width() const { return static_cast<std::size_t>(shape_.channels); }
  std::size_t state_size() const { return width() * static_cast<std::size_t>(shape_.size); }
  std::vector<float*> pieces_of(std::vector<float>& state) const {
    std::vector<float*> out = {nullptr};  // another layer's
    for (std::int64_t channel = 0; channel < shape_.channels; channel += kScanChannels)
      out.push_back(state.data() + channel * shape_.size);
    return out;
  }

  Shape shape_;
  std::vector<float> rates_, skip_;
  std::vector<std::vector<float>> states_, outputs_, stored_;
  std::vector<std::int32_t> computed_;
};

const Shape kShapes[] = {
    {},
    {.channels = 600, .size = 16},
    {.channels = 25, .size = 7},
    {.channels = 16, .size = 1},
    {.channels = 48, .size = 128},
    {.channels = 32, .size = 16, .steps = 100},
};

TEST(SelectiveScan, AgreesWithReference) {
  for (const Shape& shape : kShapes) {
    World expected(shape, 2, 30);
    const std::vector<Part> parts = {{.sequence = 1, .rows = 30, .drafts = 2}, {.sequence = 0, .rows = 17}};
    expected.step({.backend = Backend::reference}, parts);
    for (const CpuLevel level : levels_here()) {
      World actual(shape, 2, 30);
      actual.step({.backend = Backend::cpu, .level = level}, parts);
      const auto compare = [&](const std::vector<float>& made, const std::vector<float>& wanted) {
        for (std::size_t i = 0; i < wanted.size(); ++i)
          ASSERT_NEAR(made[i], wanted[i], 2e-5 * (1 + std::fabs(wanted[i])))
              << cpu_level_name(level) << " channels " << shape.channels << " element " << i;
      };
      for (const std::size_t s : {0u, 1u}) {
        compare(actual.output(s), expected.output(s));
        compare(actual.state(s), expected.state(s));
      }
    }
  }
}

// Every cut of a sequence, with drafts that are wrong and copies in passing, among others, on several
// threads, in the place of the steps or not.
TEST(SelectiveScan, BitsDependOnTheSequenceAlone) {
  ThreadPool two(2), three(3);
  constexpr std::int32_t kLength = 12;
  for (const Shape& shape : kShapes) {
    for (const CpuLevel level : levels_here()) {
      const auto context = [&](ThreadPool* pool) {
        return KernelContext{.backend = Backend::cpu, .level = level, .pool = pool};
      };
      World whole(shape, 1, kLength), steps(shape, 1, kLength);
      std::vector<std::vector<float>> after(1);  // the state after so many rows
      for (std::int32_t i = 0; i < kLength; ++i) {
        steps.step(context(nullptr), {{.rows = 1}});
        after.push_back(steps.state(0));
      }
      whole.step(context(nullptr), {{.rows = kLength, .stores = {1, 5, kLength}}}, /*in_place=*/true);
      EXPECT_TRUE(same_bits(whole.output(0), steps.output(0)));
      EXPECT_TRUE(same_bits(whole.state(0), after[kLength]));
      ASSERT_EQ(whole.stored().size(), 3u);
      EXPECT_TRUE(same_bits(whole.stored()[0], after[1]));
      EXPECT_TRUE(same_bits(whole.stored()[1], after[5]));
      EXPECT_TRUE(same_bits(whole.stored()[2], after[kLength]));

      for (std::int32_t cut = 1; cut < kLength; ++cut) {
        World world(shape, 2, kLength);
        world.step(context(&two), {{.sequence = 1, .rows = 3}, {.rows = cut, .drafts = 3, .stores = {cut}}});
        EXPECT_TRUE(same_bits(world.stored()[0], after[static_cast<std::size_t>(cut)]));
        EXPECT_TRUE(same_bits(world.state(0), after[static_cast<std::size_t>(cut)])) << "cut at " << cut;
        world.step(context(&three), {{.rows = kLength - cut}, {.sequence = 1, .rows = 2, .drafts = 1}});
        EXPECT_TRUE(same_bits(world.output(0), steps.output(0))) << "cut at " << cut;
        EXPECT_TRUE(same_bits(world.state(0), after[kLength])) << "cut at " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace pagoda
