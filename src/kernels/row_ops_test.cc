// Goal: the small row-wise ops are their formulas on rows that lie apart, agree with the plain form, and
// touch nothing beside their columns.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/latent_input.h"
#include "kernels/residual_streams.h"
#include "kernels/rows.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr std::int64_t kOpRows = 5, kOpWidth = 37, kOpStride = kOpWidth + 6;
constexpr RowShape kOpShape = {kOpRows, kOpWidth};

std::vector<float> some(std::uint64_t seed) {
  return random_floats(seed, static_cast<std::size_t>(kOpRows * kOpStride), 3);
}

// The row-wise op on rows of `x`, beside what it should be of each element; what lies between the rows stays.
void expect_op(const std::function<void(const KernelContext&, const Buffer&)>& op,
               const std::function<double(std::int64_t row, std::int64_t column, double x)>& formula) {
  ThreadPool pool(2);
  const std::vector<float> before = some(1);
  for (const KernelContext& context :
       {KernelContext{.backend = Backend::reference}, KernelContext{.pool = &pool}}) {
    std::vector<float> x = before;
    op(context, Buffer::of(x.data(), kOpStride));
    for (std::int64_t i = 0; i < kOpRows * kOpStride; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double expected =
          i % kOpStride < kOpWidth ? formula(i / kOpStride, i % kOpStride, before[at]) : before[at];
      ASSERT_NEAR(x[at], expected, 2e-6 * (1 + std::fabs(expected)))
          << "row " << i / kOpStride << " column " << i % kOpStride;
    }
  }
}

double at(const std::vector<float>& x, std::int64_t row, std::int64_t column) {
  return x[static_cast<std::size_t>(row * kOpStride + column)];
}
double softplus(double x) { return std::log1p(std::exp(x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(RowOps, AreTheirFormulas) {
  const std::vector<float> a = some(2), b = some(3);
  const Buffer of_a = Buffer::of(a.data(), kOpStride), of_b = Buffer::of(b.data(), kOpStride);
  using C = const KernelContext&;
  using B = const Buffer&;
  using I = std::int64_t;
  expect_op([](C c, B x) { zero_rows(c, kOpShape, x); }, [](I, I, double) { return 0.0; });
  expect_op([&](C c, B x) { copy_rows(c, kOpShape, of_a, x); },
            [&](I r, I i, double) { return at(a, r, i); });
  expect_op([](C c, B x) { scale_rows(c, kOpShape, 0.5f, x); }, [](I, I, double x) { return 0.5 * x; });
  expect_op([&](C c, B x) { add_rows(c, kOpShape, 3, of_a, x); },
            [&](I r, I i, double x) { return x + 3 * at(a, r, i); });
  expect_op([&](C c, B x) { add_sum(c, kOpShape, of_a, of_b, x); },
            [&](I r, I i, double x) { return x + at(a, r, i) + at(b, r, i); });
  expect_op([&](C c, B x) { join_rows(c, kOpShape, of_a, 0.5f, x); },
            [&](I r, I i, double x) { return (x + at(a, r, i)) / 2; });
  expect_op([&](C c, B x) { add_vector(c, kOpShape, a.data(), x); },
            [&](I, I i, double x) { return x + at(a, 0, i); });
  expect_op([&](C c, B x) { times_vector(c, kOpShape, x, a.data(), x); },
            [&](I, I i, double x) { return x * at(a, 0, i); });
  expect_op([&](C c, B x) { add_share(c, kOpShape, 2, of_b, of_a, x); },
            [&](I r, I i, double x) { return x + 2 * sigmoid(at(b, r, 0)) * at(a, r, i); });
  expect_op([&](C c, B x) { add_share(c, kOpShape, 2, {}, of_a, x); },
            [&](I r, I i, double x) { return x + 2 * at(a, r, i); });
  expect_op([&](C c, B x) { times_sum(c, kOpShape, of_a, 2, of_b, 0.5f, x); },
            [&](I r, I i, double x) { return x * (at(a, r, i) + 2 * at(b, r, i)) / 2; });
  expect_op([&](C c, B x) { times_gates(c, kOpShape, GateFunction::softplus, kOpWidth, of_a, x); },
            [&](I r, I i, double x) { return x * softplus(at(a, r, i)); });
  expect_op([&](C c, B x) { times_gates(c, kOpShape, GateFunction::sigmoid, 1, of_a, x); },
            [&](I r, I, double x) { return x * sigmoid(at(a, r, 0)); });
  const std::vector<std::int32_t> positions = {0, 2, 3, 7, 11};
  expect_op(
      [&](C c, B x) {
        scale_by_position(c, kOpShape, {.beta = 0.5f, .offset = 1, .positions = 4}, positions, x);
      },
      [&](I r, I, double x) {
        return x * (1 + 0.5 * std::log1p((positions[static_cast<std::size_t>(r)] + 1) / 4));
      });
  expect_op([](C c, B x) { cap_rows(c, kOpShape, 2, x); },
            [](I, I, double x) { return 2 * std::tanh(x / 2); });
  const XieluCurve curve = {.beta = 0.5f, .eps = -1e-6f, .positive = 0.8f, .negative = 1.2f};
  expect_op([&](C c, B x) { xielu(c, kOpShape, curve, x); },
            [](I, I, double x) {
              return x > 0 ? 0.8 * x * x + 0.5 * x : 1.2 * (std::exp(std::min(x, -1e-6)) - 1 - x) + 0.5 * x;
            });
}

TEST(RowOps, GatheredRowsMoveToTheFront) {
  std::vector<float> x = some(1);
  const std::vector<float> before = x;
  gather_rows({}, std::vector<std::int32_t>{0, 2, 4}, kOpWidth, Buffer::of(x.data(), kOpStride));
  for (std::int64_t i = 0; i < kOpWidth; ++i) {
    EXPECT_EQ(at(x, 0, i), at(before, 0, i));
    EXPECT_EQ(at(x, 1, i), at(before, 2, i));
    EXPECT_EQ(at(x, 2, i), at(before, 4, i));
  }
}

TEST(RowOps, SparseGatesCutOffAtTheSamePlaceHoweverTheyAreCut) {
  const std::vector<float> gates = random_floats(7, 3 * 20, 2), up = random_floats(8, 3 * 20);
  const auto run = [&](const KernelContext& context, const std::vector<std::int64_t>& widths) {
    // Row by row of each part, and what each part's owner makes of its columns.
    std::vector<float> parts, out(3 * 20);
    for (std::int64_t first = 0, part = 0; part < std::ssize(widths);
         first += widths[static_cast<std::size_t>(part++)])
      for (std::int64_t row = 0; row < 3; ++row)
        parts.insert(parts.end(), gates.begin() + row * 20 + first,
                     gates.begin() + row * 20 + first + widths[static_cast<std::size_t>(part)]);
    std::int64_t first = 0;
    for (std::size_t part = 0; part < widths.size(); ++part) {
      copy_rows({}, {3, widths[part]}, Buffer::of(up.data() + first, 20), Buffer::of(out.data() + first, 20));
      sparse_gate(context, {.deviations = 0.3, .widths = widths, .own = part}, 3, Buffer::of(parts.data(), 0),
                  Buffer::of(out.data() + first, 20));
      first += widths[part];
    }
    return out;
  };
  const std::vector<float> whole = run({}, {20}), plain = run({.backend = Backend::reference}, {20});
  EXPECT_TRUE(same_bits(run({}, {7, 13}), whole));
  EXPECT_GT(std::count(whole.begin(), whole.end(), 0.0f), 20);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], plain[i], 1e-5);
}

TEST(RowOps, RecurrentGatesAgreeWithThePlainForm) {
  const std::vector<float> rate = {-0.5f, -1, -2}, bias = {0.1f, 0.2f, -0.3f};
  for (const bool delta : {false, true}) {
    const RecurrentGates gates = {.delta_rule = delta,
                                  .num_heads = 3,
                                  .rate = rate.data(),
                                  .bias = bias.data(),
                                  .least_step = 0.2f,
                                  .most_step = 2};
    std::vector<float> fast = random_floats(3, 4 * 6, 4), plain = fast;
    for (auto* const rows : {&fast, &plain}) {
      const Buffer weight = Buffer::of(rows->data(), 6);
      recurrent_gates({.backend = rows == &fast ? Backend::cpu : Backend::reference}, gates, 4, weight,
                      weight.at(0, 3));
    }
    for (std::size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], plain[i], 1e-5) << i;
    for (std::size_t i = 0; i < fast.size(); ++i)
      if (i % 6 >= 3) EXPECT_GE(1, fast[i]);
  }
}

TEST(RowOps, RotationsAreCosinesThenSines) {
  const std::vector<std::int32_t> positions = {0, 5};
  const std::vector<double> frequencies = {1, 0.1};
  std::vector<float> out(2 * 4);
  fill_rotations({}, positions, frequencies, 2, Buffer::of(out.data(), 4));
  EXPECT_EQ(out, (std::vector<float>{
                     2, 2, 0, 0, static_cast<float>(2 * std::cos(5.0)), static_cast<float>(2 * std::cos(0.5)),
                     static_cast<float>(2 * std::sin(5.0)), static_cast<float>(2 * std::sin(0.5))}));
}

TEST(ResidualStreams, AgreeWithThePlainForm) {
  const StreamShape shape = {.num_rows = 4, .width = 24, .streams = 3};
  const std::vector<float> predict = random_floats(1, 27), correct = random_floats(2, 9);
  const auto run = [&](const KernelContext& context) {
    std::vector<float> x = random_floats(3, 4 * 24, 2), others = random_floats(4, 4 * 48, 2),
                       y = random_floats(5, 4 * 24), modes = random_floats(6, 4 * 3, 20), predicted(4 * 24);
    const Buffer of_x = Buffer::of(x.data(), 24), of_others = Buffer::of(others.data(), 48),
                 of_y = Buffer::of(y.data(), 24), of_modes = Buffer::of(modes.data(), 3),
                 of_predicted = Buffer::of(predicted.data(), 24);
    turn_modes(context, shape, of_modes);
    match_magnitude(context, shape, of_y, of_x, StreamSum::none, of_others);
    predict_streams(context, shape, predict.data(), of_modes, of_x, of_others, of_predicted);
    EXPECT_EQ(predicted, x);
    add_rows(context, {4, 24}, 1, of_y, of_x);  // the layer
    correct_streams(context, shape, correct.data(), of_modes, of_predicted, of_x, of_others);
    add_to_streams(context, shape, of_y, of_others);
    match_magnitude(context, shape, of_others, of_predicted, StreamSum::added, of_x);
    match_magnitude(context, shape, of_others.at(0, 24), of_predicted, StreamSum::added_last, of_x);
    x.insert(x.end(), others.begin(), others.end());
    return x;
  };
  ThreadPool pool(3);
  const std::vector<float> fast = run({.pool = &pool}), plain = run({.backend = Backend::reference});
  EXPECT_TRUE(same_bits(fast, run({})));
  for (std::size_t i = 0; i < fast.size(); ++i)
    EXPECT_NEAR(fast[i], plain[i], 2e-5 * (1 + std::fabs(plain[i])));
}

TEST(LatentInput, HeadsAreMultipliedByMatricesOfTheirOwn) {
  constexpr std::int64_t kHeads = 3, kIn = 8, kOut = 6, kMany = 130;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<PackedLinear> matrices;
  for (std::uint64_t head = 0; head < kHeads; ++head) {
    bytes.push_back(random_weights(head, DType::f32, kOut * kIn));
    const TensorView view = {DType::f32, {kOut, kIn}, bytes.back().data()};
    auto packed = PackedLinear::pack({}, LinearType::float32, std::span(&view, 1));
    ASSERT_TRUE(packed);
    matrices.push_back(*std::move(packed));
  }
  const std::vector<float> x = random_floats(5, kMany * kHeads * kIn);
  std::vector<float> out(kMany * (kHeads * 10 + 1)), one(kOut);
  ThreadPool pool(2);
  head_products({.pool = &pool}, matrices, kMany, Buffer::of(x.data(), kHeads * kIn), kIn,
                Buffer::of(out.data(), kHeads * 10 + 1), 10);
  for (std::int64_t row = 0; row < kMany; ++row) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      linear({}, matrices[static_cast<std::size_t>(head)],
             LinearInput::rows(x.data() + (row * kHeads + head) * kIn, kIn), 1, Buffer::of(one.data(), kOut));
      EXPECT_TRUE(std::equal(one.begin(), one.end(), out.begin() + row * (kHeads * 10 + 1) + head * 10));
    }
  }
}

TEST(LatentInput, ARowIsNormedAndItsRotatedPartsAreTaken) {
  const LatentRows shape = {.num_heads = 2,
                            .query_size = 5,
                            .nope_size = 3,
                            .latent_size = 4,
                            .rope_size = 2,
                            .weight = nullptr,
                            .eps = 0};
  const std::vector<float> queries = {0, 0, 0, 1, 2, 0, 0, 0, 3, 4}, kept = {2, -2, 2, -2, 5, 6},
                           weight = {1, 1, 1, 3};
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    std::vector<float> out(3 * 6, 9.0f);
    LatentRows own = shape;
    own.weight = weight.data();
    latent_rows({.backend = backend}, own, 1, Buffer::of(queries.data(), 10), Buffer::of(kept.data(), 6),
                Buffer::of(out.data(), 18));
    EXPECT_EQ(out, (std::vector<float>{9, 9, 9, 9, 1, 2, 9, 9, 9, 9, 3, 4, 1, -1, 1, -3, 5, 6}));
  }
}

}  // namespace
}  // namespace pagoda
