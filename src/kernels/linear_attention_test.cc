// Goal: linear attention agrees with the reference for every instruction set and shape, with the delta rule
// and without; and its bits depend on the sequence alone (state_testing.h).
#include "kernels/linear_attention.h"

#include <gtest/gtest.h>

#include "kernels/elementwise.h"
#include "kernels/state_testing.h"

namespace pagoda {
namespace {

struct LinearShape {
  std::int32_t heads = 4, key_heads = 2, key_size = 32, value_size = 32;
  bool delta = true, tiled = false, skip = false;

  std::size_t width() const { return static_cast<std::size_t>(heads * value_size); }
  std::size_t head_state() const { return static_cast<std::size_t>(key_size * value_size); }
};

class LinearWorld : public StateWorld {
 public:
  LinearWorld(const LinearShape& shape, std::size_t sequences, std::int32_t length)
      : StateWorld(sequences, length, shape.width(),
                   static_cast<std::size_t>(shape.heads) * shape.head_state(), shape.head_state()),
        shape_(shape) {}

  void step(const KernelContext& context, const std::vector<StatePart>& parts) {
    const std::size_t keys = static_cast<std::size_t>(shape_.key_heads * shape_.key_size);
    const std::size_t stride = 2 * keys + shape_.width() + 3,
                      gates = static_cast<std::size_t>(2 * shape_.heads) + 1;
    std::vector<float> entered, gate, output,
        skip = random_floats(99, static_cast<std::size_t>(shape_.heads));
    const auto enter = [&](std::size_t sequence, std::uint64_t position) {
      const std::vector<float> row = random_floats(position * 16 + sequence, stride);
      entered.insert(entered.end(), row.begin(), row.end());
      for (std::size_t g = 0; g < gates; ++g)
        gate.push_back(static_cast<float>(random_uniform(position, sequence, g)));
    };
    StateWorld::step(parts, enter, [&](const LayerStates& states, std::int32_t num_rows) {
      const auto key_heads = static_cast<std::int32_t>(2 * shape_.key_heads);
      const Buffer inputs = Buffer::of(entered.data(), static_cast<std::int64_t>(stride)),
                   own_gates = Buffer::of(gate.data(), static_cast<std::int64_t>(gates));
      heads_to_unit({.backend = Backend::reference}, inputs, num_rows, key_heads, shape_.key_size, 1e-6f,
                    1.0f);
      output.resize(static_cast<std::size_t>(num_rows) * shape_.width());
      const Buffer made = Buffer::of(output.data(), static_cast<std::int64_t>(shape_.width()));
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
                                 .output = made,
                                 .states = states,
                                 .piece = 0});
      return made;
    });
  }

 private:
  LinearShape shape_;
};

const LinearShape kLinearShapes[] = {
    {},
    {.heads = 6, .key_heads = 2, .key_size = 16, .value_size = 16},
    {.heads = 6, .key_heads = 2, .key_size = 16, .value_size = 48, .tiled = true},
    {.heads = 2, .key_heads = 2, .key_size = 128, .value_size = 128},
    {.heads = 3, .key_heads = 1, .key_size = 7, .value_size = 20},
    {.heads = 4, .key_heads = 1, .key_size = 128, .value_size = 64, .delta = false, .skip = true},
    {.heads = 4, .key_heads = 2, .key_size = 16, .value_size = 8, .delta = false, .skip = true},
};

TEST(LinearAttention, AgreesWithReference) {
  for (const LinearShape& shape : kLinearShapes) expect_as_reference<LinearWorld>(shape, 2e-5f, 0);
}

TEST(LinearAttention, BitsDependOnTheSequenceAlone) {
  for (const LinearShape& shape : kLinearShapes) expect_bits_of_the_sequence_alone<LinearWorld>(shape);
}

}  // namespace
}  // namespace pagoda
