// Goal: linear attention agrees with the reference for every instruction set and shape, with the delta rule
// and without; and a row's bits, and the state's, depend on the sequence alone: not on how its rows are cut
// into steps, on drafts that came and went, on what is copied in passing, on the rest of the batch, or the
// threads.
#include "kernels/linear_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

struct Shape {
  std::int32_t heads = 4, key_heads = 2, key_size = 32, value_size = 32;
  bool delta = true, tiled = false, skip = false;
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
  }

  // Drafts are wrong: their rows are those of other positions. Copies in passing go to stored().
  void step(const KernelContext& context, const std::vector<Part>& parts) {
    std::int32_t total = 0;
    for (const Part& part : parts) total += part.rows + part.drafts;
    const auto rows = static_cast<std::size_t>(total);
    const std::size_t keys = static_cast<std::size_t>(shape_.key_heads * shape_.key_size);
    const std::size_t stride = 2 * keys + width() + 3, gates = static_cast<std::size_t>(2 * shape_.heads) + 1;
    std::vector<float> entered, gate, skip = random_floats(99, static_cast<std::size_t>(shape_.heads));
    std::vector<StateSequence> sequences;
    std::vector<std::vector<float*>> pieces(parts.size());
    std::vector<std::vector<StateStore>> stores(parts.size());
    stored_.clear();
    std::size_t num_stores = 0;
    for (const Part& part : parts) num_stores += part.stores.size();
    stored_.assign(num_stores, std::vector<float>(state_size()));
    std::vector<std::vector<float*>> store_pieces(num_stores);
    std::size_t next_store = 0;
    const auto pieces_of = [&](std::vector<float>& state) {
      std::vector<float*> out = {nullptr};  // another layer's
      for (std::int32_t head = 0; head < shape_.heads; ++head)
        out.push_back(state.data() + static_cast<std::ptrdiff_t>(head) * shape_.key_size * shape_.value_size);
      return out;
    };
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
        const std::vector<float> row = random_floats(position * 16 + part.sequence, stride);
        entered.insert(entered.end(), row.begin(), row.end());
        for (std::size_t g = 0; g < gates; ++g)
          gate.push_back(static_cast<float>(random_uniform(position, part.sequence, g)));
      }
    }
    const auto key_heads = static_cast<std::int32_t>(2 * shape_.key_heads);
    const Buffer inputs = Buffer::of(entered.data(), static_cast<std::int64_t>(stride)),
                 own_gates = Buffer::of(gate.data(), static_cast<std::int64_t>(gates));
    heads_to_unit({.backend = Backend::reference}, inputs, total, key_heads, shape_.key_size, 1e-6f, 1.0f);
    std::vector<float> output(rows * width());
    linear_attention(context, {.num_heads = shape_.heads,
                               .num_key_heads = shape_.key_heads,
                               .tiled_heads = shape_.tiled,
                               .key_size = shape_.key_size,
                               .value_size = shape_.value_size,
                               .delta_rule = shape_.delta,
                               .query = inputs,
                               .key = inputs.at(0, static_cast<std::int64_t>(keys)),
                               .value = inputs.at(0, static_cast<std::int64_t>(2 * keys)),
                               .decay = own_gates,
                               .weight = own_gates.at(0, shape_.heads),
                               .skip = shape_.skip ? skip.data() : nullptr,
                               .output = Buffer::of(output.data(), static_cast<std::int64_t>(width())),
                               .states = {.sequences = sequences, .first_piece = 1},
                               .piece = 0});
    std::size_t row = 0;
    for (const Part& part : parts) {
      for (std::int32_t i = 0; i < part.rows + part.drafts; ++i, ++row)
        if (i < part.rows)
          std::copy_n(output.begin() + static_cast<std::ptrdiff_t>(row * width()), width(),
                      outputs_[part.sequence].begin() +
                          static_cast<std::ptrdiff_t>(width()) * (computed_[part.sequence] + i));
      computed_[part.sequence] += part.rows;
    }
  }

  const std::vector<float>& output(std::size_t sequence) const { return outputs_[sequence]; }
  const std::vector<float>& state(std::size_t sequence) const { return states_[sequence]; }
  const std::vector<std::vector<float>>& stored() const { return stored_; }

 private:
  std::size_t width() const { return static_cast<std::size_t>(shape_.heads * shape_.value_size); }
  std::size_t state_size() const { return width() * static_cast<std::size_t>(shape_.key_size); }

  Shape shape_;
  std::vector<std::vector<float>> states_, outputs_, stored_;
  std::vector<std::int32_t> computed_;
};

const Shape kShapes[] = {
    {},
    {.heads = 6, .key_heads = 2, .key_size = 16, .value_size = 16},
    {.heads = 6, .key_heads = 2, .key_size = 16, .value_size = 48, .tiled = true},
    {.heads = 2, .key_heads = 2, .key_size = 128, .value_size = 128},
    {.heads = 3, .key_heads = 1, .key_size = 7, .value_size = 20},
    {.heads = 4, .key_heads = 1, .key_size = 128, .value_size = 64, .delta = false, .skip = true},
    {.heads = 4, .key_heads = 2, .key_size = 16, .value_size = 8, .delta = false, .skip = true},
};

TEST(LinearAttention, AgreesWithReference) {
  for (const Shape& shape : kShapes) {
    World expected(shape, 2, 30);
    const std::vector<Part> parts = {{.sequence = 1, .rows = 30, .drafts = 2}, {.sequence = 0, .rows = 17}};
    expected.step({.backend = Backend::reference}, parts);
    for (const CpuLevel level : levels_here()) {
      World actual(shape, 2, 30);
      actual.step({.backend = Backend::cpu, .level = level}, parts);
      for (const std::size_t s : {0u, 1u}) {
        for (std::size_t i = 0; i < expected.output(s).size(); ++i)
          ASSERT_NEAR(actual.output(s)[i], expected.output(s)[i], 2e-5)
              << cpu_level_name(level) << " value size " << shape.value_size << " element " << i;
        for (std::size_t i = 0; i < expected.state(s).size(); ++i)
          ASSERT_NEAR(actual.state(s)[i], expected.state(s)[i], 2e-5) << cpu_level_name(level);
      }
    }
  }
}

// Every cut of a sequence, with drafts that are wrong and copies in passing, among others, on several
// threads.
TEST(LinearAttention, BitsDependOnTheSequenceAlone) {
  ThreadPool two(2), three(3);
  constexpr std::int32_t kLength = 12;
  for (const Shape& shape : kShapes) {
    for (const CpuLevel level : levels_here()) {
      const auto context = [&](ThreadPool* pool) {
        return KernelContext{.backend = Backend::cpu, .level = level, .pool = pool};
      };
      World whole(shape, 1, kLength);
      std::vector<Part> one_by_one(1, {.rows = 1});
      std::vector<std::vector<float>> after(1);  // the state after so many rows
      World steps(shape, 1, kLength);
      for (std::int32_t i = 0; i < kLength; ++i) {
        steps.step(context(nullptr), one_by_one);
        after.push_back(steps.state(0));
      }
      whole.step(context(nullptr), {{.rows = kLength, .stores = {1, 5, kLength}}});
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
