// Goal: every row-wise kernel and the matrix product compute what kernels/reference computes, over random
// shapes, and a row's bits depend on the row alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/kernels/launch_shapes.h"
#include "device/test_support.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/reference/reference.h"
#include "kernels/testing.h"

namespace pagoda::device {
namespace {

std::vector<std::uint16_t> bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(float_to_bfloat16(value));
  return bits;
}

std::size_t drawn_size(std::uint64_t seed, std::uint64_t what, std::size_t least, std::size_t most) {
  return least + random_bits(seed, 1, what) % (most - least + 1);
}

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted, float tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], tolerance * std::max(1.0f, std::abs(wanted[i]))) << "element " << i;
}

TEST(DeviceKernels, RmsNorm) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::size_t rows = drawn_size(seed, 0, 1, 5), width = drawn_size(seed, 1, 1, 300);
    const auto x = random_floats(seed, rows * width, 3), weight = random_floats(seed + 99, width);
    KernelBench bench(seed);
    float* const out = bench.make<float>(rows * width);
    const NormArgs args = {bench.put(x), bench.put(weight), out, static_cast<std::int32_t>(width), 1e-5f};
    ASSERT_TRUE(bench.run().rms_norm(args, static_cast<std::int64_t>(rows)).ok());
    std::vector<float> wanted(rows * width);
    const auto columns = static_cast<std::int64_t>(width);
    rms_norm(kReference, Buffer::of(x.data(), columns), static_cast<std::int64_t>(rows), columns,
             weight.data(), 1e-5f, Buffer::of(wanted.data(), columns));
    expect_near(bench.get(out, rows * width), wanted, 1e-5f);
  }
}

TEST(DeviceKernels, EmbeddingAndGather) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::size_t rows = drawn_size(seed, 0, 1, 9), width = drawn_size(seed, 1, 1, 200), vocabulary = 17;
    const auto table = random_floats(seed, vocabulary * width);
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < rows; ++i)
      ids.push_back(static_cast<std::int32_t>(drawn_size(seed, 10 + i, 0, 16)));
    KernelBench bench(seed);
    float* const out = bench.make<float>(rows * width);
    float* const gathered = bench.make<float>(rows * width);
    const bool whole = seed % 2 == 0;
    const void* const stored = whole ? static_cast<const void*>(bench.put(table)) : bench.put(bf16(table));
    const std::int32_t* const rows_there = bench.put(ids);
    const auto w = static_cast<std::int32_t>(width);
    const auto count = static_cast<std::int64_t>(rows);
    ASSERT_TRUE(
        bench.run()
            .embedding(whole ? Element::f32 : Element::bf16, {stored, rows_there, out, w, 2.0f, 0, 0}, count)
            .ok());
    ASSERT_TRUE(bench.run().gather_rows({bench.put(table), rows_there, gathered, w}, count).ok());
    std::vector<float> wanted, plain;
    for (const std::int32_t id : ids)
      for (std::size_t i = 0; i < width; ++i) {
        const float value = table[static_cast<std::size_t>(id) * width + i];
        plain.push_back(value);
        wanted.push_back(2 * (whole ? value : bfloat16_to_float(float_to_bfloat16(value))));
      }
    EXPECT_EQ(bench.get(out, rows * width), wanted);
    EXPECT_EQ(bench.get(gathered, rows * width), plain);
  }
}

// In place, in rows that lie apart.
TEST(DeviceKernels, LayerNorm) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::size_t rows = drawn_size(seed, 0, 1, 5), width = drawn_size(seed, 1, 1, 300),
                      apart = drawn_size(seed, 2, 0, 9);
    const std::size_t stride = width + apart;
    const auto weight = random_floats(seed + 99, width), bias = random_floats(seed + 98, width);
    std::vector<float> x = random_floats(seed, rows * stride, 3);
    for (float& value : x) value += 1.5f;
    KernelBench bench(seed);
    float* const there = bench.put(x);
    NormArgs args = {there, bench.put(weight), there, static_cast<std::int32_t>(width), 1e-5f};
    args.bias = seed % 2 == 0 ? bench.put(bias) : nullptr;
    args.stride = static_cast<std::int32_t>(stride);
    ASSERT_TRUE(bench.run().layer_norm(args, static_cast<std::int64_t>(rows)).ok());
    std::vector<float> wanted = x;
    for (std::size_t r = 0; r < rows; ++r)
      layer_norm(kReference, Buffer::of(x.data() + r * stride, 0), 1, static_cast<std::int64_t>(width),
                 weight.data(), args.bias != nullptr ? bias.data() : nullptr, 1e-5f,
                 Buffer::of(wanted.data() + r * stride, 0));
    expect_near(bench.get(there, rows * stride), wanted, 2e-5f);
  }
}

TEST(DeviceKernels, FunctionsOfFeedForwards) {
  for (const Activation function : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
                                    Activation::relu, Activation::relu2, Activation::clamped_silu})
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const bool gated = seed % 2 == 0;
      const std::size_t rows = drawn_size(seed, 0, 1, 4), width = drawn_size(seed, 1, 1, 300),
                        all = (gated ? 2 : 1) * width;
      const auto in = random_floats(seed, rows * all, 9);
      KernelBench bench(seed);
      float* const out = bench.make<float>(rows * width);
      ASSERT_TRUE(bench.run()
                      .activate({bench.put(in), out, static_cast<std::int32_t>(width),
                                 static_cast<Function>(function), gated ? 1 : 0},
                                static_cast<std::int64_t>(rows))
                      .ok());
      std::vector<float> wanted;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < width; ++i) {
          const float value = reference::activation(function, in[r * all + i]);
          wanted.push_back(gated ? value * reference::gate_factor(function, in[r * all + width + i]) : value);
        }
      expect_near(bench.get(out, rows * width), wanted, 1e-5f);
    }
}

// Norms and functions that round what they make: in slabs, as products read it, or row by row. Rows of more
// than 4,096 elements do not fit into the registers of a norm's threads.
class RoundedRows {
 public:
  RoundedRows(std::uint64_t seed, std::size_t width)
      : bench_(seed),
        rows_(static_cast<std::int32_t>(drawn_size(seed, 0, 1, 11))),
        width_(static_cast<std::int32_t>(width)),
        slab_rows_(seed % 3 == 0 ? 0 : rows_),
        x_(random_floats(seed, 2 * count(), 3)),
        weight_(random_floats(seed + 99, width)),
        bias_(random_floats(seed + 98, width)) {}

  // The launch itself rounds as round_rows() does what it stores.
  void norm(bool rms) {
    const auto launch = [&](const NormArgs& args) {
      return rms ? bench_.run().rms_norm(args, rows_) : bench_.run().layer_norm(args, rows_);
    };
    NormArgs args = {bench_.put(x_), bench_.put(weight_), bench_.make<float>(count()), width_, 1e-5f};
    args.bias = rms ? nullptr : bench_.put(bias_);
    ASSERT_TRUE(launch(args).ok());
    compare(args.out, args, launch);
  }
  void function(bool gated) {
    const auto launch = [&](const ActivateArgs& args) { return bench_.run().activate(args, rows_); };
    ActivateArgs args = {bench_.put(x_), bench_.make<float>(count()), width_, Function::clamped_silu,
                         gated ? 1 : 0};
    ASSERT_TRUE(launch(args).ok());
    compare(args.out, args, launch);
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(rows_) * static_cast<std::size_t>(width_); }
  std::size_t elements() const {
    return slab_rows_ == 0 ? count() : static_cast<std::size_t>(slab_elements(rows_, width_));
  }
  template <class Args, class Launch>
  void compare(const float* out, Args args, const Launch& launch) {
    auto* const wanted = bench_.make<std::uint16_t>(elements());
    ASSERT_TRUE(bench_.run()
                    .round_rows({.x = out, .out = wanted, .width = width_, .slab_rows = slab_rows_}, rows_)
                    .ok());
    const std::vector<std::uint16_t> bits = bench_.get(wanted, elements());
    const std::vector<std::uint16_t> plain = bf16(bench_.get(out, count()));
    for (std::int32_t row = 0; row < rows_; ++row)
      for (std::int32_t i = 0; i < width_; ++i) {
        const std::int64_t at = std::int64_t{row} * width_ + i;
        ASSERT_EQ(bits[static_cast<std::size_t>(slab_rows_ == 0 ? at : slab_place(rows_, row, i))],
                  plain[static_cast<std::size_t>(at)])
            << row << ", " << i;
      }
    args.out = nullptr;
    args.rounded = bench_.make<std::uint16_t>(elements());
    args.slab_rows = slab_rows_;
    ASSERT_TRUE(launch(args).ok());
    EXPECT_EQ(bench_.get(args.rounded, elements()), bits);
  }

  KernelBench bench_;
  std::int32_t rows_, width_, slab_rows_;
  std::vector<float> x_, weight_, bias_;
};

TEST(DeviceKernels, RoundedOutputsHaveTheBitsOfALaunchThatRounds) {
  for (std::uint64_t seed = 0; seed < 18; ++seed) {
    const std::size_t width = seed % 6 == 5   ? drawn_size(seed, 1, 4000, 9000) / 4 * 4
                              : seed % 3 == 0 ? drawn_size(seed, 1, 1, 1300)
                                              : drawn_size(seed, 1, 1, 300) * 8;
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ", width " << width);
    RoundedRows rows(seed, width);
    rows.norm(seed % 2 == 0);
    rows.function(seed % 4 < 2);
  }
}

TEST(DeviceKernels, AddRowsAndSoftcap) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const std::size_t rows = drawn_size(seed, 0, 1, 4), width = drawn_size(seed, 1, 1, 300);
    const auto x = random_floats(seed, rows * width, 4), y = random_floats(seed + 1, rows * width, 40),
               gate = random_floats(seed + 2, rows, 3);
    const bool gated = seed % 2 == 0;
    KernelBench bench(seed);
    float* const there = bench.put(y);
    const auto w = static_cast<std::int32_t>(width);
    const auto count = static_cast<std::int64_t>(rows);
    ASSERT_TRUE(
        bench.run().add_rows({bench.put(x), there, gated ? bench.put(gate) : nullptr, w, 0.7f}, count).ok());
    ASSERT_TRUE(bench.run().softcap({there, w, 30}, count).ok());
    std::vector<float> wanted;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < width; ++i) {
        const double share = gated ? 0.7 / (1 + std::exp(-static_cast<double>(gate[r]))) : 0.7;
        const double sum = y[r * width + i] + share * x[r * width + i];
        wanted.push_back(static_cast<float>(30 * std::tanh(sum / 30)));
      }
    expect_near(bench.get(there, rows * width), wanted, 1e-5f);
  }
}

TEST(DeviceKernels, Linear) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    const std::size_t rows = drawn_size(seed, 0, 1, 35), n = drawn_size(seed, 1, 1, 50),
                      k = drawn_size(seed, 2, 1, 90);
    const bool whole = seed % 2 == 0, with_bias = seed % 4 < 2, accumulate = seed % 3 == 0;
    const auto x = random_floats(seed, rows * k), w = random_floats(seed + 50, n * k);
    const auto bias = random_floats(seed + 70, n), before = random_floats(seed + 80, rows * n);
    const auto product = [&](std::size_t first, std::size_t count) {
      KernelBench bench(seed + first);
      const std::vector<float> part(x.begin() + static_cast<std::ptrdiff_t>(first * k),
                                    x.begin() + static_cast<std::ptrdiff_t>((first + count) * k));
      const std::vector<float> old(before.begin() + static_cast<std::ptrdiff_t>(first * n),
                                   before.begin() + static_cast<std::ptrdiff_t>((first + count) * n));
      LinearArgs args;
      args.x = bench.put(part);
      args.weight = whole ? static_cast<const void*>(bench.put(w)) : bench.put(bf16(w));
      if (with_bias) args.bias = bench.put(bias);
      args.y = accumulate ? bench.put(old) : bench.make<float>(count * n);
      args.rows = static_cast<std::int32_t>(count);
      args.n = static_cast<std::int32_t>(n);
      args.k = static_cast<std::int32_t>(k);
      args.accumulate = accumulate ? 1 : 0;
      EXPECT_TRUE(bench.run().linear(whole ? Element::f32 : Element::bf16, args).ok());
      return bench.get(args.y, count * n);
    };
    const std::vector<float> got = product(0, rows);
    std::vector<float> wanted;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < n; ++c) {
        double sum = (accumulate ? before[r * n + c] : 0) + (with_bias ? bias[c] : 0);
        for (std::size_t i = 0; i < k; ++i) {
          const float weight = w[c * k + i];
          sum += static_cast<double>(x[r * k + i]) *
                 (whole ? weight : bfloat16_to_float(float_to_bfloat16(weight)));
        }
        wanted.push_back(static_cast<float>(sum));
      }
    expect_near(got, wanted, 1e-4f);
    // Alone, the last row has the same bits.
    const std::vector<float> alone = product(rows - 1, 1);
    EXPECT_TRUE(same_bits(alone, {got.end() - static_cast<std::ptrdiff_t>(n), got.end()}));
  }
}

TEST(DeviceKernels, CopyBlocks) {
  KernelBench bench(3);
  constexpr std::int64_t kBlock = 8 * 5003;
  std::vector<float> cache = random_floats(1, 6 * kBlock / 4);
  auto* const there = reinterpret_cast<std::byte*>(bench.put(cache, "cache"));
  const CopyBlocksArgs args = {there, bench.put(std::vector<std::int32_t>{0, 1, 0}),
                               bench.put(std::vector<std::int32_t>{4, 5, 2}), kBlock};
  ASSERT_TRUE(bench.run().copy_blocks(args, 3).ok());
  const auto copy = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
    std::copy_n(cache.begin() + from * kBlock / 4, kBlock / 4, cache.begin() + to * kBlock / 4);
  };
  copy(0, 4);
  copy(1, 5);
  copy(0, 2);
  EXPECT_TRUE(same_bits(bench.get(reinterpret_cast<const float*>(there), cache.size()), cache));
}

}  // namespace
}  // namespace pagoda::device
