// Goal: the op and its routing agree with the plain form, ties and odd numbers included; grouped products
// are, to the bit, what linear makes of each row alone, whoever else is there, for every type of weights.
#include "kernels/mixture.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/random.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Routes {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routes routes_of(const KernelContext& context, const RoutingRule& rule, const std::vector<float>& logits,
                 const std::vector<float>& correction = {}) {
  const auto rows = static_cast<std::int64_t>(logits.size()) / rule.num_experts;
  const auto count = static_cast<std::size_t>(rows * rule.per_token);
  Routes routes = {std::vector<std::int32_t>(count, -1), std::vector<float>(count, -1.0f)};
  route(context, rule, logits.data(), rows, correction, routes.experts.data(), routes.weights.data());
  return routes;
}

const KernelContext kPlain = {.backend = Backend::reference};

TEST(Route, AgreesWithThePlainForm) {
  ThreadPool pool(3);
  std::uint64_t seed = 0;
  for (const RouterScore score :
       {RouterScore::softmax, RouterScore::softmax_of_chosen, RouterScore::sigmoid}) {
    for (const std::int32_t groups : {1, 2, 4}) {
      for (const bool best_two : {false, true}) {
        for (const bool corrected : {false, true}) {
          for (const std::int32_t experts : {4, 8, 64}) {
            ++seed;
            const RoutingRule rule = {.score = score,
                                      .num_experts = experts,
                                      .per_token = experts == 64 ? 7 : 1,
                                      .num_groups = groups,
                                      .groups_used = (groups + 1) / 2,
                                      .group_is_best_two = best_two,
                                      .renormalize = seed % 2 == 0,
                                      .scale = seed % 3 == 0 ? 2.5f : 1.0f};
            const auto logits = random_floats(seed, static_cast<std::size_t>(40 * experts), 3.0f);
            const auto correction = corrected ? random_floats(seed + 500, static_cast<std::size_t>(experts))
                                              : std::vector<float>();
            const Routes plain = routes_of(kPlain, rule, logits, correction);
            const Routes fast = routes_of({.pool = &pool}, rule, logits, correction);
            EXPECT_EQ(fast.experts, plain.experts) << seed;
            for (std::size_t i = 0; i < plain.weights.size(); ++i)
              EXPECT_NEAR(fast.weights[i], plain.weights[i], 1e-5) << seed;
          }
        }
      }
    }
  }
}

TEST(Route, SparseMixerAgreesWithThePlainForm) {
  ThreadPool pool(3);
  for (const float near : {0.0f, 0.02f, 0.5f, 1.5f}) {
    const RoutingRule rule = {
        .score = RouterScore::sparse_mixer, .num_experts = 16, .per_token = 2, .near = near};
    const auto logits = random_floats(static_cast<std::uint64_t>(near * 100) + 1, 400 * 16, 3.0f);
    const Routes plain = routes_of(kPlain, rule, logits), fast = routes_of({.pool = &pool}, rule, logits);
    EXPECT_EQ(fast.experts, plain.experts) << near;
    for (std::size_t i = 0; i < plain.weights.size(); ++i)
      EXPECT_NEAR(fast.weights[i], plain.weights[i], 1e-5) << near;
  }
}

// The best, then the best of the rest; each weighed among those near it, the first among all.
TEST(Route, SparseMixerIsTheFormula) {
  const RoutingRule rule = {
      .score = RouterScore::sparse_mixer, .num_experts = 4, .per_token = 2, .near = 0.25f};
  for (const KernelContext& context : {kPlain, KernelContext{}}) {
    const Routes routes = routes_of(context, rule, {3.5f, 1, 4, 3});  // 4 allows 3.5 and 3; 3.5 allows 3
    EXPECT_EQ(routes.experts, (std::vector<std::int32_t>{0, 2}));
    EXPECT_NEAR(routes.weights[0], 1 / (1 + std::exp(-0.5)), 1e-6);
    EXPECT_NEAR(routes.weights[1], 1 / (1 + std::exp(-0.5) + std::exp(-1.0)), 1e-6);
    const Routes below = routes_of(context, rule, {-4, -3, -3.5f, -8});  // by the magnitude of the other
    EXPECT_EQ(below.experts, (std::vector<std::int32_t>{1, 2}));
    EXPECT_NEAR(below.weights[0], 1 / (1 + std::exp(-0.5) + std::exp(-1.0)), 1e-6);
  }
}

TEST(Route, EqualScoresGoToTheLowerId) {
  const RoutingRule rule = {.score = RouterScore::softmax, .num_experts = 6, .per_token = 3};
  for (const KernelContext& context : {kPlain, KernelContext{}}) {
    EXPECT_EQ(routes_of(context, rule, {0, 0, 0, 0, 0, 0}).experts, (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_EQ(routes_of(context, rule, {1, 2, 1, 2, 1, 1}).experts, (std::vector<std::int32_t>{0, 1, 3}));
    RoutingRule grouped = rule;
    grouped.num_groups = 3;
    grouped.groups_used = 2;
    EXPECT_EQ(routes_of(context, grouped, {2, 1, 1, 2, 2, 1}).experts, (std::vector<std::int32_t>{0, 1, 3}));
  }
}

TEST(Route, WeightsAreTheFormulas) {
  RoutingRule rule = {.num_experts = 4, .per_token = 2};
  const std::vector<float> logits = {0, 1, 2, 3};
  const double sum = 1 + std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(routes_of({}, rule, logits).weights[0], std::exp(2.0) / sum, 1e-6);
  rule.score = RouterScore::softmax_of_chosen;
  EXPECT_NEAR(routes_of({}, rule, logits).weights[1], std::exp(1.0) / (1 + std::exp(1.0)), 1e-6);
  rule.score = RouterScore::sigmoid;
  rule.scale = 3;
  EXPECT_NEAR(routes_of({}, rule, logits).weights[1], 3 / (1 + std::exp(-3.0)), 1e-6);
  // The correction chooses and does not weigh.
  const Routes corrected = routes_of({}, rule, logits, {10, 0, 0, 0});
  EXPECT_EQ(corrected.experts, (std::vector<std::int32_t>{0, 3}));
  EXPECT_NEAR(corrected.weights[0], 1.5, 1e-6);
  rule.renormalize = true;
  const Routes whole = routes_of({}, rule, logits, {10, 0, 0, 0});
  EXPECT_NEAR(whole.weights[0] + whole.weights[1], 3, 1e-6);
}

TEST(Route, OddNumbersStillChooseExpertsThatExist) {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::softmax_of_chosen, RouterScore::sigmoid,
                                  RouterScore::sparse_mixer}) {
    const RoutingRule rule = {.score = score,
                              .num_experts = 4,
                              .per_token = 2,
                              .num_groups = 2,
                              .groups_used = 1,
                              .renormalize = true};
    for (const std::vector<float>& logits : {std::vector<float>{kNan, kNan, kNan, kNan},
                                             {-kInfinity, -kInfinity, -kInfinity, -kInfinity},
                                             {kInfinity, 1, kNan, -kInfinity},
                                             {1e38f, -1e38f, 3e38f, 0}}) {
      const Routes routes = routes_of({}, rule, logits);
      EXPECT_LT(routes.experts[0], routes.experts[1]);
      EXPECT_GE(routes.experts[0], 0);
      EXPECT_LT(routes.experts[1], 4);
    }
  }
}

// Experts of one shape, and rows that chose some of them.
struct Mixture {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<PackedLinear> first, second;
  std::vector<std::int32_t> starts = {0}, rows;
  std::vector<float> x, factors;
  std::int64_t num_rows = 0, hidden = 0;
  RowGroups groups() const { return {.starts = starts, .rows = rows, .factors = factors}; }
};

struct MixtureShape {
  std::int64_t hidden, inner;
  DType stored;
  LinearType type;
  bool gated = true, biased = false;
};

TensorView random_matrix(Mixture& to, std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k) {
  to.bytes.push_back(random_weights(seed, dtype, n * k));
  return {dtype, {n, k}, to.bytes.back().data()};
}

Mixture make_mixture(const KernelContext& context, const MixtureShape& shape, std::uint64_t seed,
                     std::int32_t experts) {
  Mixture mixture;
  mixture.hidden = shape.hidden;
  const auto bias = [&](std::int64_t n) {
    return shape.biased ? random_floats(++seed, static_cast<std::size_t>(n)) : std::vector<float>();
  };
  for (std::int32_t expert = 0; expert < experts; ++expert) {
    std::vector<TensorView> in;
    for (int i = 0; i < (shape.gated ? 2 : 1); ++i)
      in.push_back(random_matrix(mixture, ++seed, shape.stored, shape.inner, shape.hidden));
    const TensorView out = random_matrix(mixture, ++seed, shape.stored, shape.hidden, shape.inner);
    const std::int64_t in_rows = static_cast<std::int64_t>(in.size()) * shape.inner;
    auto first = PackedLinear::pack(context, shape.type, in, bias(in_rows),
                                    shape.gated ? LinearForm::gated : LinearForm::stacked);
    auto second = PackedLinear::pack(context, shape.type, std::span(&out, 1), bias(shape.hidden));
    CHECK(first && second);
    mixture.first.push_back(*std::move(first));
    mixture.second.push_back(*std::move(second));
  }
  return mixture;
}

// Rows choose `per_row` experts at random, the first ones more often.
void choose(Mixture& mixture, std::uint64_t seed, std::int64_t num_rows, std::int32_t per_row) {
  const auto experts = static_cast<std::uint64_t>(mixture.first.size());
  mixture.num_rows = num_rows;
  mixture.x = random_floats(seed, static_cast<std::size_t>(num_rows * mixture.hidden));
  std::vector<std::set<std::int32_t>> rows_of(experts);
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(num_rows); ++row) {
    for (std::int32_t i = 0; i < per_row; ++i) {
      const std::uint64_t bits =
          random_bits(seed, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(i));
      rows_of[bits % (i == 0 ? std::min<std::uint64_t>(experts, 2) : experts)].insert(row);
    }
  }
  mixture.starts = {0};
  mixture.rows.clear();
  for (const auto& rows : rows_of) {
    mixture.rows.insert(mixture.rows.end(), rows.begin(), rows.end());
    mixture.starts.push_back(static_cast<std::int32_t>(mixture.rows.size()));
  }
}

std::vector<float> outputs_of(const KernelContext& context, const Mixture& mixture, Activation activation,
                              LinearInput input = {}) {
  if (input.x == nullptr) input = LinearInput::rows(mixture.x.data(), mixture.hidden);
  std::vector<float> out(mixture.rows.size() * static_cast<std::size_t>(mixture.hidden), 7.0f);
  grouped_pair(context, mixture.first, activation, mixture.second, input, mixture.num_rows, mixture.groups(),
               out.data());
  return out;
}

// The products of each place's row, alone.
std::vector<float> alone(const KernelContext& context, const Mixture& mixture, Activation activation,
                         LinearInput input = {}) {
  if (input.x == nullptr) input = LinearInput::rows(mixture.x.data(), mixture.hidden);
  std::vector<float> out(mixture.rows.size() * static_cast<std::size_t>(mixture.hidden));
  for (std::size_t m = 0; m < mixture.first.size(); ++m) {
    std::vector<float> between(static_cast<std::size_t>(mixture.second[m].k()));
    for (auto place = static_cast<std::size_t>(mixture.starts[m]);
         place < static_cast<std::size_t>(mixture.starts[m + 1]); ++place) {
      LinearInput row = input;
      row.x += mixture.rows[place] * input.stride;
      linear(context, mixture.first[m], row, 1, Buffer::of(between.data(), mixture.first[m].n()),
             {.activation = activation});
      linear(context, mixture.second[m], LinearInput::rows(between.data(), mixture.second[m].k()), 1,
             Buffer::of(out.data() + place * static_cast<std::size_t>(mixture.hidden), mixture.hidden));
    }
  }
  return out;
}

TEST(GroupedPair, EveryRowHasTheBitsThatItHasAlone) {
  ThreadPool pool(3);
  std::uint64_t seed = 1;
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type :
         {LinearType::float32, LinearType::bfloat16, LinearType::float16, LinearType::int8}) {
      for (const DType stored : weight_types()) {
        const std::int64_t block = dtype_info(stored).block_elements;
        const MixtureShape shape = {.hidden = std::max<std::int64_t>(block, 52) / block * block,
                                    .inner = block == 1    ? 75
                                             : block == 32 ? 96
                                                           : block,
                                    .stored = stored,
                                    .type = type,
                                    .gated = seed % 3 != 0,
                                    .biased = seed % 2 == 0};
        SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " type " << static_cast<int>(type)
                                          << " stored " << dtype_info(stored).name);
        const KernelContext context = {.level = level, .pool = &pool};
        Mixture mixture = make_mixture(context, shape, seed * 1000, 5);
        for (const std::int64_t rows : {1, 3, 47}) {
          choose(mixture, ++seed, rows, 2);
          ASSERT_EQ(outputs_of(context, mixture, Activation::silu), alone(context, mixture, Activation::silu))
              << rows;
        }
      }
    }
  }
}

TEST(GroupedPair, AgreesWithTheReference) {
  for (const LinearType type :
       {LinearType::float32, LinearType::bfloat16, LinearType::float16, LinearType::int8}) {
    const MixtureShape shape = {
        .hidden = 64, .inner = 96, .stored = DType::q4_0, .type = type, .biased = true};
    Mixture plain = make_mixture(kPlain, shape, 77, 4), fast = make_mixture({}, shape, 77, 4);
    choose(plain, 3, 9, 2);
    choose(fast, 3, 9, 2);
    const auto expected = outputs_of(kPlain, plain, Activation::gelu_tanh),
               actual = outputs_of({}, fast, Activation::gelu_tanh);
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::fabs(value));
    // Intermediate values are rounded, too, to 8 bits or 16.
    const float tolerance = largest * (type == LinearType::float32 ? 1e-5f : 1e-2f);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

TEST(GroupedPair, NormsAndFactorsComeFirst) {
  ThreadPool pool(2);
  const KernelContext context = {.pool = &pool};
  const MixtureShape shape = {.hidden = 40, .inner = 64, .stored = DType::f32, .type = LinearType::float32};
  Mixture mixture = make_mixture(context, shape, 5, 3);
  choose(mixture, 4, 21, 2);
  const std::vector<float> weight = random_floats(6, 40);
  const LinearInput normed = {.x = mixture.x.data(),
                              .stride = 40,
                              .op = LinearInput::Op::rms_norm,
                              .weight = weight.data(),
                              .eps = 1e-5f};
  EXPECT_EQ(outputs_of(context, mixture, Activation::silu, normed),
            alone(context, mixture, Activation::silu, normed));
  Mixture scaled = make_mixture(context, shape, 5, 3);
  choose(scaled, 4, 21, 2);
  for (float& value : scaled.x) value *= 2;
  mixture.factors.assign(mixture.rows.size(), 2.0f);
  EXPECT_EQ(outputs_of(context, mixture, Activation::silu), alone(context, scaled, Activation::silu));
}

TEST(GroupedPair, ManyRowsOfWideMatricesAreTheSameBitsForAnyNumberOfThreads) {
  const MixtureShape shape = {.hidden = 512, .inner = 256, .stored = DType::q4_k, .type = LinearType::int8};
  Mixture mixture = make_mixture({}, shape, 9, 6);
  choose(mixture, 8, 700, 3);
  const std::vector<float> one = outputs_of({}, mixture, Activation::silu);
  for (const int threads : {2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(outputs_of({.pool = &pool}, mixture, Activation::silu), one) << threads;
  }
}

TEST(AddWeighted, SumsByAscendingPlaceAndPassesOverThoseElsewhere) {
  ThreadPool pool(2);
  const std::int64_t width = 300, rows = 17, per_row = 3, places = 51;
  const std::vector<float> x = random_floats(1, static_cast<std::size_t>(places * width));
  const std::vector<float> weights = random_floats(2, static_cast<std::size_t>(rows * per_row));
  std::vector<std::int32_t> place;
  for (std::int32_t i = 0; i < rows * per_row; ++i) place.push_back(i % 5 == 4 ? -1 : (i * 7) % 51);
  std::vector<float> y = random_floats(3, static_cast<std::size_t>(rows * width)), expected = y;
  add_weighted({.pool = &pool}, x.data(), width, rows, per_row, place.data(), weights.data(), true,
               Buffer::of(y.data(), width));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      float sum = 0;
      for (std::int64_t i = row * per_row; i < (row + 1) * per_row; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (place[at] >= 0) sum += weights[at] * x[static_cast<std::size_t>(place[at] * width + column)];
      }
      expected[static_cast<std::size_t>(row * width + column)] += sum;
    }
  }
  EXPECT_EQ(y, expected);
}

// The whole op: the logits choose, and y is what it was, or nothing, plus the weighted sum.
std::vector<float> mixed(const KernelContext& context, const Mixture& experts, const MixtureArgs& how,
                         std::int64_t first, std::int64_t rows, bool accumulate) {
  MixtureArgs args = how;
  args.first = experts.first;
  args.second = experts.second;
  const std::vector<float> logits =
      random_floats(31, static_cast<std::size_t>(90 * how.routing.num_experts), 2);
  std::vector<float> y = random_floats(32, static_cast<std::size_t>(90 * experts.hidden)),
                     scratch(static_cast<std::size_t>(rows * mixture_scratch(args)));
  const Buffer of_y = Buffer::of(y.data(), experts.hidden).at(first);
  // The input is what y is, as the residual stream of a layer.
  EXPECT_TRUE(mixture(context, args, Buffer::of(logits.data(), how.routing.num_experts).at(first),
                      LinearInput::rows(of_y), rows, Buffer::of(scratch.data(), 0), accumulate, of_y)
                  .ok());
  return {y.begin() + first * experts.hidden, y.begin() + (first + rows) * experts.hidden};
}

TEST(MixtureOp, AgreesWithThePlainFormAndDependsOnTheRowAlone) {
  const MixtureShape shape = {.hidden = 40, .inner = 64, .stored = DType::f32, .type = LinearType::float32};
  const std::vector<float> scales = {1, 2, 0.5f, 1.5f, 1, 3}, correction = {0, 1, 0, -1, 0, 0.5f};
  ThreadPool pool(3);
  Mixture plain = make_mixture(kPlain, shape, 11, 6), fast = make_mixture({}, shape, 11, 6);
  for (const bool scaled : {false, true}) {
    for (const bool weigh_input : {false, true}) {
      for (const bool accumulate : {false, true}) {
        MixtureArgs how = {.routing = {.num_experts = 6, .per_token = 2, .renormalize = true},
                           .weigh_input = weigh_input};
        if (scaled) how.expert_scales = scales;
        if (scaled) how.correction = correction;
        const std::vector<float> expected = mixed(kPlain, plain, how, 0, 90, accumulate),
                                 all = mixed({.pool = &pool}, fast, how, 0, 90, accumulate);
        for (std::size_t i = 0; i < all.size(); ++i)
          ASSERT_NEAR(all[i], expected[i], 1e-4 * (1 + std::fabs(expected[i]))) << i;
        EXPECT_EQ(mixed({}, fast, how, 0, 90, accumulate), all);
        for (const std::int64_t row : {0, 57, 89})
          EXPECT_EQ(mixed({}, fast, how, row, 1, accumulate),
                    std::vector<float>(all.begin() + row * 40, all.begin() + (row + 1) * 40));
      }
    }
  }
}

}  // namespace
}  // namespace pagoda
