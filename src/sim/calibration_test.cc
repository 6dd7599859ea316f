// A cost model fitted to the steps of a known one gives back its times.
#include "sim/calibration.h"

#include <cmath>

#include "base/random.h"
#include "sim/step_scatter.h"
#include "sim/test_support.h"

namespace pagoda {
namespace {

constexpr double kPerSequence = 2e-5, kPerContext = 3e-7, kPerPair = 4e-8;

double curve(double tokens) { return std::max(3e-3, 4e-4 * tokens); }

std::vector<MeasuredStep> steps(double noise) {
  std::vector<MeasuredStep> out;
  const auto add = [&](MeasuredStep step) {
    const double sign = out.size() % 2 == 0 ? 1 : -1;
    step.seconds = (curve(step.tokens) + kPerSequence * step.sequences + kPerContext * step.context_tokens +
                    kPerPair * step.attention_pairs) *
                   (1 + sign * noise);
    out.push_back(step);
  };
  for (const double batch : {1, 2, 4, 8, 16, 32, 64})
    for (const double context : {32, 500, 1500})
      add({.tokens = batch, .sequences = batch, .context_tokens = batch * context});
  for (const double chunk : {4, 16, 32, 64, 128, 256})
    for (const double before : {0, 512, 1024})
      add({.tokens = chunk, .sequences = 1, .attention_pairs = chunk * before + chunk * chunk / 2});
  return out;
}

TEST(Calibration, GivesBackAKnownModel) {
  CostModel model = sim_test::plain_cost_model();
  const auto report = calibrate(steps(0), model);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_LT(report->largest_error, 0.02);
  EXPECT_TRUE(validate(model).ok()) << validate(model).message();
  EXPECT_NEAR(model.kv_bytes_per_token / model.attention_bytes_per_s / kPerContext, 1, 0.1);
  EXPECT_NEAR(4 * model.attention_width * model.num_layers / model.attention_flops_per_s / kPerPair, 1, 0.1);
  std::vector<TokenId> tokens(256, 1);
  ScheduledBatch batch;
  ScheduledSequence prefill;
  prefill.num_computed_tokens = 512;
  prefill.tokens = tokens;
  batch.sequences.push_back(prefill);
  batch.num_tokens = 256;
  const double wanted = curve(256) + kPerSequence + kPerPair * (256 * 512 + 256 * 257 / 2);
  EXPECT_NEAR(step_cost(model, batch, 16).seconds / wanted, 1, 0.03);
}

TEST(Calibration, NoiseStaysNoise) {
  CostModel model = sim_test::plain_cost_model();
  const auto report = calibrate(steps(0.05), model);
  ASSERT_TRUE(report);
  EXPECT_LT(report->median_error, 0.08);
  EXPECT_TRUE(validate(model).ok());
}

// How far what is `lag` steps apart is alike.
double correlation(const std::vector<double>& values, std::size_t lag) {
  double mean = 0, square = 0, product = 0;
  for (const double x : values) mean += x / double(values.size());
  for (std::size_t i = lag; i < values.size(); ++i) {
    square += (values[i] - mean) * (values[i] - mean);
    product += (values[i] - mean) * (values[i - lag] - mean);
  }
  return product / square;
}

void expect_scatter_comes_back(double rho, double share) {
  constexpr double kSpread = 0.2;
  const auto normal = [](std::uint64_t stream, std::uint64_t i) {  // near enough: a sum of uniforms
    double sum = -6;
    for (std::uint64_t k = 0; k < 12; ++k) sum += random_uniform(3, 12 * stream + k, i);
    return sum;
  };
  std::vector<MeasuredStep> measured;
  double slow = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    slow = rho * slow + std::sqrt(1 - rho * rho) * normal(0, i);
    const double score = std::sqrt(share) * slow + std::sqrt(1 - share) * normal(1, i);
    const double batch = std::exp2(static_cast<double>(i / 10 % 4));
    measured.push_back(
        {.tokens = batch, .sequences = batch, .seconds = 1e-3 * (4 + batch) * std::exp(kSpread * score)});
  }
  CostModel model = sim_test::plain_cost_model();
  ASSERT_TRUE(calibrate(measured, model, Scatter::take));
  ASSERT_TRUE(validate(model).ok()) << validate(model).message();
  EXPECT_NEAR(model.scatter_correlation, rho, 0.05);
  EXPECT_NEAR(model.scatter_share, share, 0.1);
  const auto again = parse_cost_model(cost_model_json(model));
  ASSERT_TRUE(again) << again.error().message();
  StepScatter scatter(*again, 5);
  std::vector<double> logs;
  for (int i = 0; i < 40'000; ++i) logs.push_back(std::log(scatter.next(false)));
  double mean = 0, square = 0;
  for (const double x : logs) {
    mean += x / double(logs.size());
    square += x * x / double(logs.size());
  }
  EXPECT_NEAR(std::sqrt(square - mean * mean), kSpread, 0.02);
  EXPECT_NEAR(mean, 0, 0.05);
  EXPECT_NEAR(correlation(logs, 1), share * rho, 0.06);
  EXPECT_NEAR(correlation(logs, 20), share * std::pow(rho, 20), 0.08);
}

TEST(Calibration, ScatterIsTakenAndDrawnAgain) {
  expect_scatter_comes_back(0.7, 1);
  expect_scatter_comes_back(0.97, 0.5);
}

// A load of short prompts says little of what pairs cost, and of sequences nothing beside tokens: what is
// predicted of its own steps is right all the same.
TEST(Calibration, WhatTheLoadDoesNotTellApartIsRightTogether) {
  std::vector<MeasuredStep> measured;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    MeasuredStep step;
    step.sequences = 1 + std::floor(20 * std::pow(random_uniform(1, 1, i), 2));
    step.tokens = step.sequences;
    step.context_tokens = step.tokens * (20 + 90 * random_uniform(1, 2, i));
    if (i % 14 == 0) {
      step.sequences += 1;
      step.tokens += 19;
      step.attention_pairs = 190;
    }
    const double known = curve(step.tokens) + kPerSequence * step.sequences +
                         kPerContext * step.context_tokens + kPerPair * step.attention_pairs;
    step.seconds = known * (1 + 0.3 * (random_uniform(1, 3, i) - 0.5));
    measured.push_back(step);
  }
  CostModel model = sim_test::plain_cost_model();
  ASSERT_TRUE(calibrate(measured, model));
  for (const double batch : {1.0, 3.0, 7.0, 12.0, 18.0}) {
    sim_test::Batch steps;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(batch); ++i) steps.add(60, 1);
    const double wanted = curve(batch) + kPerSequence * batch + kPerContext * batch * 61;
    EXPECT_NEAR(step_cost(model, steps.batch, 16).seconds / wanted, 1, 0.05) << batch;
  }
}

TEST(Calibration, TooLittleIsRefused) {
  CostModel model = sim_test::plain_cost_model();
  EXPECT_FALSE(calibrate({}, model));
  const std::vector<MeasuredStep> alike(9, MeasuredStep{.tokens = 1, .sequences = 1, .seconds = 1});
  EXPECT_FALSE(calibrate(alike, model));
  std::vector<MeasuredStep> bad = steps(0);
  bad[3].seconds = 0;
  EXPECT_FALSE(calibrate(bad, model));
}

TEST(Calibration, MappingIsExactForTheMeasuredCalls) {
  CostModel model = sim_test::plain_cost_model();
  calibrate_mapping({.pages = 1, .map_s = 7e-6, .unmap_s = 4e-6},
                    {.pages = 91, .map_s = 61e-6, .unmap_s = 18.2e-6}, 4096, model);
  EXPECT_NEAR(model.map_page_s, 0.6e-6, 1e-12);
  EXPECT_NEAR(model.map_call_s + 91 * model.map_page_s, 61e-6, 1e-12);
  EXPECT_NEAR(model.map_call_s + model.map_page_s, 7e-6, 1e-12);
  EXPECT_NEAR(model.map_call_s + 91 * model.unmap_page_s, 18.2e-6, 1e-12);
  EXPECT_TRUE(validate(model).ok());
}

TEST(Calibration, ScatterIsNoMisfitAndAnotherShapeIs) {
  const auto fit_error = [](auto shape, double noise) {
    std::vector<MeasuredStep> measured;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      MeasuredStep step{.tokens = 1 + std::floor(31 * random_uniform(1, 1, i))};
      step.sequences = step.tokens;
      step.context_tokens = step.tokens * (50 + 900 * random_uniform(1, 2, i));
      step.seconds = shape(step) * (1 + noise * (random_uniform(1, 3, i) - 0.5));
      measured.push_back(step);
    }
    CostModel model = sim_test::plain_cost_model();
    EXPECT_TRUE(calibrate(measured, model, Scatter::take));
    return model.fit_error;
  };
  const auto known = [](const MeasuredStep& s) {
    return curve(s.tokens) + kPerSequence * s.sequences + kPerContext * s.context_tokens;
  };
  EXPECT_LT(fit_error(known, 0.5), 0.03);
  // A cost that no curve over tokens and no cost of contexts can give.
  const auto other = [](const MeasuredStep& s) {
    return 0.004 + 1e-11 * s.context_tokens * s.context_tokens * s.tokens;
  };
  EXPECT_GT(fit_error(other, 0), 0.05);
  const auto waves = [](const MeasuredStep& s) { return 0.01 * (1.6 + std::sin(s.context_tokens / 700)); };
  EXPECT_GT(fit_error(waves, 0.1), 0.10);
}

}  // namespace
}  // namespace pagoda
