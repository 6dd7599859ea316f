// A cost model fitted to the steps of a known one gives back its times.
#include "sim/calibration.h"

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

TEST(Calibration, TooLittleIsRefused) {
  CostModel model = sim_test::plain_cost_model();
  EXPECT_FALSE(calibrate({}, model));
  const std::vector<MeasuredStep> alike(9, MeasuredStep{.tokens = 1, .sequences = 1, .seconds = 1});
  EXPECT_FALSE(calibrate(alike, model));
  std::vector<MeasuredStep> bad = steps(0);
  bad[3].seconds = 0;
  EXPECT_FALSE(calibrate(bad, model));
}

}  // namespace
}  // namespace pagoda
