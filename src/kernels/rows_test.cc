// Goal: the row-wise ops of every instruction set agree with the reference over all widths, and a row's
// bits do not depend on the batch or the threads.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/logits.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr std::int64_t kWidths[] = {1, 2, 15, 16, 17, 33, 64, 100, 576, 1000, 1536};

// Runs op(context, out) on the reference and on every level, and compares.
template <class Op>
void compare(std::size_t size, double tolerance, const Op& op) {
  std::vector<float> expected(size, 3.0f);
  op(KernelContext{.backend = Backend::reference}, expected.data());
  for (const CpuLevel level : levels_here()) {
    std::vector<float> actual(size, 3.0f);
    op(KernelContext{.backend = Backend::cpu, .level = level}, actual.data());
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::fabs(expected[i])))
          << cpu_level_name(level) << " element " << i << " of " << size;
    }
  }
}

TEST(Rows, NormsAgreeWithReference) {
  for (const std::int64_t width : kWidths) {
    constexpr std::int64_t kRows = 3;
    const auto size = static_cast<std::size_t>(width * kRows);
    const std::vector<float> x = random_floats(1, size, 4), w = random_floats(2, size),
                             b = random_floats(3, size);
    compare(size, 2e-6, [&](const KernelContext& c, float* out) {
      rms_norm(c, Buffer::of(x.data(), width), kRows, width, w.data(), 1e-5f, Buffer::of(out, width));
    });
    compare(size, 1e-5, [&](const KernelContext& c, float* out) {
      layer_norm(c, Buffer::of(x.data(), width), kRows, width, w.data(), b.data(), 1e-3f,
                 Buffer::of(out, width));
    });
    compare(size, 1e-5, [&](const KernelContext& c, float* out) {
      layer_norm(c, Buffer::of(x.data(), width), kRows, width, nullptr, nullptr, 1e-3f,
                 Buffer::of(out, width));
    });
  }
}

TEST(Rows, RopeAgreesWithReference) {
  struct Case {
    std::int32_t heads, size, rotary;
  };
  for (const Case& t :
       {Case{1, 8, 8}, Case{3, 64, 64}, Case{2, 80, 32}, Case{2, 20, 10}, Case{5, 128, 128}}) {
    const std::int64_t stride = static_cast<std::int64_t>(t.heads) * t.size + 7;
    const std::vector<std::int32_t> positions = {3, 0, 3, 9};
    const std::vector<float> x = random_floats(5, static_cast<std::size_t>(4 * stride));
    const std::vector<float> table = random_floats(6, static_cast<std::size_t>(10 * t.rotary));
    compare(x.size(), 1e-6, [&](const KernelContext& c, float* out) {
      std::copy(x.begin(), x.end(), out);
      rope(c, Buffer::of(out, stride), 4, t.heads, t.size, t.rotary, positions,
           Buffer::of(table.data(), t.rotary));
    });
  }
}

TEST(Rows, GatesAgreeWithReference) {
  for (const std::int64_t width : kWidths) {
    const auto size = static_cast<std::int32_t>(width);
    const std::int64_t stride = 2 * width + 3;  // two groups a row
    const auto count = static_cast<std::size_t>(3 * stride);
    const std::vector<float> x = random_floats(11, count, 3), gate = random_floats(12, count, 4),
                             w = random_floats(13, static_cast<std::size_t>(2 * width));
    const auto compare_on_x = [&](const auto& op) {
      compare(count, 5e-6, [&](const KernelContext& c, float* out) {
        std::copy(x.begin(), x.end(), out);
        op(c, out);
      });
    };
    for (const bool gate_first : {false, true}) {
      for (const float* weight : {w.data(), static_cast<const float*>(nullptr)}) {
        compare_on_x([&](const KernelContext& c, float* out) {
          const GatedNorm norm = {.num_groups = 2,
                                  .group_size = size,
                                  .weight = weight,
                                  .own_weights = gate_first,
                                  .gate_first = gate_first,
                                  .eps = 1e-3f};
          gated_rms_norm(c, norm, 3, Buffer::of(out, stride), Buffer::of(gate.data(), stride));
        });
      }
    }
    compare_on_x([&](const KernelContext& c, float* out) {
      times_sigmoid(c, 3, width, Buffer::of(out, stride), Buffer::of(gate.data(), stride));
    });
    compare_on_x([&](const KernelContext& c, float* out) {
      heads_to_unit(c, Buffer::of(out, stride), 3, 2, size, 1e-6f, 0.25f);
    });
  }
}

TEST(Rows, EmbeddingGivesTheRows) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0, DType::q4_1}) {
    const std::vector<std::byte> bytes = random_weights(7, dtype, 9 * 64);
    const TensorView table{dtype, {9, 64}, bytes.data()};
    const std::vector<std::int32_t> ids = {8, 0, 3, 3};
    std::vector<float> out(4 * 64), row(64);
    embedding({}, table, ids, Buffer::of(out.data(), 64));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      dequantize_row(table, ids[i], row.data());
      EXPECT_TRUE(std::equal(row.begin(), row.end(), out.begin() + static_cast<std::ptrdiff_t>(64 * i)));
    }
    // Ids 5 to 13 are this rank's: 8 is its row 3, and the others' rows are zeros.
    embedding({}, table, ids, Buffer::of(out.data(), 64), {.first_id = 5, .num_ids = 9});
    dequantize_row(table, 3, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), out.begin()));
    EXPECT_TRUE(std::all_of(out.begin() + 64, out.end(), [](float x) { return x == 0; }));
  }
}

TEST(Rows, BitsDependOnTheRowAlone) {
  ThreadPool two(2), three(3);
  constexpr std::int64_t kRows = 70, kWidth = 576;
  const std::vector<float> x = random_floats(8, kRows * kWidth, 3), w = random_floats(9, kWidth);
  for (const CpuLevel level : levels_here()) {
    const auto run = [&](ThreadPool* pool, std::int64_t first, std::int64_t rows) {
      const KernelContext context{.backend = Backend::cpu, .level = level, .pool = pool};
      std::vector<float> normed(static_cast<std::size_t>(rows * kWidth)), out(normed.size());
      const Buffer between = Buffer::of(normed.data(), kWidth);
      layer_norm(context, Buffer::of(x.data() + first * kWidth, kWidth), rows, kWidth, nullptr, nullptr,
                 1e-5f, between);
      rms_norm(context, between, rows, kWidth, w.data(), 1e-5f, Buffer::of(out.data(), kWidth));
      return out;
    };
    const std::vector<float> all = run(nullptr, 0, kRows);
    EXPECT_TRUE(same_bits(run(&two, 0, kRows), all));
    EXPECT_TRUE(same_bits(run(&three, 0, kRows), all));
    for (const std::int64_t row : {0, 13, 69}) {
      const auto begin = all.begin() + row * kWidth;
      EXPECT_TRUE(same_bits(run(nullptr, row, 1), std::vector<float>(begin, begin + kWidth)));
    }
  }
}

TEST(Logits, AgreeWithReference) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::size_t n : {1u, 15u, 16u, 17u, 500u, 5000u, 49152u}) {
    std::vector<float> logits = random_floats(n, n, 8);
    for (std::size_t i = 0; i < n; i += 7) logits[i] = std::round(logits[i]);  // ties
    for (std::size_t i = 3; i < n; i += 11) logits[i] = -infinity;             // masked tokens
    const KernelContext plain{.backend = Backend::reference};
    for (const CpuLevel level : levels_here()) {
      const KernelContext cpu{.backend = Backend::cpu, .level = level};
      const LogitMax a = max_logit(cpu, logits), b = max_logit(plain, logits);
      EXPECT_EQ(a.index, b.index);
      EXPECT_EQ(a.value, b.value);
      EXPECT_NEAR(log_sum_exp(cpu, logits), log_sum_exp(plain, logits), 1e-6 * (1 + std::fabs(b.value)));
      for (const std::int32_t k : {0, 1, 5, 20, 200, 60000}) {
        const auto c = top_logits(cpu, logits, k), d = top_logits(plain, logits, k);
        ASSERT_EQ(c.size(), d.size());
        for (std::size_t i = 0; i < c.size(); ++i) {
          ASSERT_EQ(c[i].index, d[i].index) << "n " << n << " k " << k << " place " << i;
          ASSERT_EQ(c[i].value, d[i].value);
        }
      }
      for (const float value : {b.value, 0.0f, -100.0f, logits[n / 2]}) {
        EXPECT_EQ(logit_rank(cpu, logits, value), logit_rank(plain, logits, value));
      }
    }
  }
}

TEST(Logits, AllMaskedOrInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const CpuLevel level : levels_here()) {
    const KernelContext cpu{.backend = Backend::cpu, .level = level};
    const std::vector<float> masked(40, -infinity);
    EXPECT_EQ(max_logit(cpu, masked).index, 0);
    EXPECT_EQ(log_sum_exp(cpu, masked), -infinity);
    EXPECT_EQ(max_logit(cpu, {}).index, -1);
    std::vector<float> one(40, 0.0f);
    one[33] = infinity;
    EXPECT_EQ(max_logit(cpu, one).index, 33);
    EXPECT_EQ(log_sum_exp(cpu, one), infinity);
  }
}

TEST(Logits, NoMaximumIsANaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const KernelContext plain{.backend = Backend::reference};
  for (const CpuLevel level : levels_here()) {
    const KernelContext cpu{.backend = Backend::cpu, .level = level};
    for (const std::size_t n : {1u, 16u, 40u}) {
      std::vector<float> logits(n, nan);
      for (const KernelContext& context : {cpu, plain}) EXPECT_EQ(max_logit(context, logits).index, 0);
      logits[n - 1] = -3;
      if (n > 20) logits[20] = 5;
      for (const KernelContext& context : {cpu, plain})
        EXPECT_EQ(max_logit(context, logits).index, static_cast<std::int32_t>(n > 20 ? 20 : n - 1));
    }
  }
}

}  // namespace
}  // namespace pagoda
