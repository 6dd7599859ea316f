// Goal: the causal convolution of every instruction set agrees with the reference; its bits, and those of the
// state that it leaves and copies in passing, do not depend on how rows are cut into steps, on drafts behind
// them, on the batch or the threads.
#include "kernels/causal_conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "kernels/testing.h"

namespace pagoda {
namespace {

struct ConvShape {
  std::int64_t channels;
  std::int32_t taps;
  bool gates, bias, silu;
};

constexpr ConvShape kConvShapes[] = {{1, 2, false, false, false},  {16, 3, true, false, false},
                                     {17, 3, true, true, false},   {64, 4, false, true, true},
                                     {100, 4, false, false, true}, {200, 5, true, true, true},
                                     {33, 8, true, true, false}};
constexpr std::int32_t kConvRows = 23;

// Sequences of one layer whose state is one piece, behind another layer's.
class Conv {
 public:
  explicit Conv(const ConvShape& shape)
      : shape_(shape),
        stride_(3 * shape.channels + 5),
        weight_(random_floats(1, size(shape.channels * shape.taps))),
        bias_(random_floats(2, size(shape.channels))) {}

  std::size_t state_size() const { return size((shape_.taps - 1) * shape_.channels); }
  // Inputs of a sequence: rows with both gates.
  std::vector<float> inputs(std::uint64_t seed) const {
    return random_floats(seed, size(kConvRows * stride_), 2);
  }

  struct Step {
    const float* inputs;  // its first row
    std::int32_t rows, drafts;
    bool fresh;
    float* state;
    float* output;
    std::vector<std::pair<std::int32_t, float*>> stores = {};
  };
  void run(const KernelContext& context, const std::vector<Step>& steps) const {
    std::vector<float> rows, out;
    std::vector<std::array<float*, 2>> pieces;
    std::vector<std::vector<StateStore>> stores;
    std::vector<StateSequence> sequences;
    pieces.reserve(1000);
    stores.reserve(steps.size());
    std::int32_t first = 0;
    for (const Step& step : steps) {
      rows.insert(rows.end(), step.inputs, step.inputs + step.rows * stride_);
      std::vector<StateStore>& of = stores.emplace_back();
      for (const auto& [at, to] : step.stores)
        of.push_back(
            {.num_rows = at, .pieces = pieces.emplace_back(std::array<float*, 2>{nullptr, to}).data()});
      sequences.push_back({.first_row = first,
                           .num_rows = step.rows,
                           .num_drafts = step.drafts,
                           .fresh = step.fresh,
                           .pieces = pieces.emplace_back(std::array<float*, 2>{nullptr, step.state}).data(),
                           .stores = of});
      first += step.rows;
    }
    out.resize(size(first * shape_.channels));
    const Buffer input = Buffer::of(rows.data(), stride_);
    causal_conv(context, {.num_channels = shape_.channels,
                          .num_taps = shape_.taps,
                          .weight = weight_.data(),
                          .bias = shape_.bias ? bias_.data() : nullptr,
                          .silu = shape_.silu,
                          .input = input,
                          .gate = shape_.gates ? input.at(0, shape_.channels) : Buffer(),
                          .output_gate = shape_.gates ? input.at(0, 2 * shape_.channels) : Buffer(),
                          .output = Buffer::of(out.data(), shape_.channels),
                          .states = {.sequences = sequences, .first_piece = 1}});
    const float* from = out.data();
    for (const Step& step : steps) {
      std::copy_n(from, step.rows * shape_.channels, step.output);
      from += step.rows * shape_.channels;
    }
  }
  std::int64_t stride() const { return stride_; }

  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

 private:
  ConvShape shape_;
  std::int64_t stride_;
  std::vector<float> weight_, bias_;
};

struct Outcome {
  std::vector<float> output, state;
  bool operator==(const Outcome& other) const {
    return std::ranges::equal(output, other.output, same) && std::ranges::equal(state, other.state, same);
  }
  static bool same(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  }
};

Outcome whole(const Conv& conv, const ConvShape& shape, const KernelContext& context, std::uint64_t seed) {
  Outcome out{std::vector<float>(Conv::size(kConvRows * shape.channels)),
              std::vector<float>(conv.state_size(), 7.0f)};
  const std::vector<float> inputs = conv.inputs(seed);
  conv.run(context, {{inputs.data(), kConvRows, 0, true, out.state.data(), out.output.data()}});
  return out;
}

TEST(CausalConv, AgreesWithReference) {
  for (const ConvShape& shape : kConvShapes) {
    const Conv conv(shape);
    const Outcome expected = whole(conv, shape, {.backend = Backend::reference}, 5);
    for (const CpuLevel level : levels_here()) {
      const Outcome actual = whole(conv, shape, {.level = level}, 5);
      for (std::size_t i = 0; i < expected.output.size(); ++i)
        ASSERT_NEAR(actual.output[i], expected.output[i], 1e-5 * (1 + std::fabs(expected.output[i])))
            << cpu_level_name(level) << " taps " << shape.taps << " element " << i;
      EXPECT_EQ(actual.state, expected.state);
    }
  }
}

TEST(CausalConv, BitsDependOnTheSequenceAlone) {
  ThreadPool pool(3);
  for (const ConvShape& shape : kConvShapes) {
    const Conv conv(shape);
    for (const CpuLevel level : levels_here()) {
      SCOPED_TRACE(::testing::Message()
                   << cpu_level_name(level) << " channels " << shape.channels << " taps " << shape.taps);
      const KernelContext alone{.level = level}, threads{.level = level, .pool = &pool};
      const Outcome expected = whole(conv, shape, alone, 5), other = whole(conv, shape, alone, 6);
      const std::vector<float> inputs = conv.inputs(5), others = conv.inputs(6);
      for (std::int32_t cut = 1; cut < kConvRows; ++cut) {
        // The first rows with the others as drafts, which leave no trace; then those, beside another sequence
        // and with a copy in passing.
        Outcome got = expected, beside = other;
        std::fill(got.state.begin(), got.state.end(), 9.0f);
        std::vector<float> copy(conv.state_size(), 9.0f), at_cut(conv.state_size(), 9.0f);
        conv.run(threads,
                 {{inputs.data(), kConvRows, kConvRows - cut, true, got.state.data(), got.output.data()}});
        EXPECT_EQ(got.output, expected.output);
        at_cut = got.state;
        got.output.assign(got.output.size(), 9.0f);
        std::copy_n(expected.output.begin(), cut * shape.channels, got.output.begin());
        conv.run(threads, {{others.data(),
                            kConvRows,
                            0,
                            true,
                            beside.state.data(),
                            beside.output.data(),
                            {{cut, copy.data()}}},
                           {inputs.data() + cut * conv.stride(), kConvRows - cut, 0, false, got.state.data(),
                            got.output.data() + cut * shape.channels}});
        EXPECT_TRUE(got == expected) << "cut at " << cut;
        EXPECT_TRUE(beside == other) << "cut at " << cut;
        // A sequence that continues from the copy gets the rest of the other.
        std::vector<float> rest(Conv::size((kConvRows - cut) * shape.channels));
        conv.run(alone, {{others.data() + cut * conv.stride(), kConvRows - cut, 0, false, copy.data(),
                          rest.data()}});
        EXPECT_TRUE(
            std::equal(rest.begin(), rest.end(), other.output.begin() + cut * shape.channels, Outcome::same));
        EXPECT_EQ(copy, other.state);
        // And what is kept at the cut is that of a sequence which ends there.
        std::vector<float> shorter(conv.state_size(), 9.0f), begun(Conv::size(cut * shape.channels));
        conv.run(alone, {{inputs.data(), cut, 0, true, shorter.data(), begun.data()}});
        EXPECT_EQ(at_cut, shorter);
      }
    }
  }
}

}  // namespace
}  // namespace pagoda
