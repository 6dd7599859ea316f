// Goal: percentiles are numpy's; the sketch agrees with the exact figures within its stated width.
#include "load/latency_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "load/draws.h"

namespace pagoda {
namespace {

TEST(Percentile, IsNumpysLinear) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  EXPECT_EQ(percentile(sorted, 0), 1);
  EXPECT_EQ(percentile(sorted, 50), 3);
  EXPECT_NEAR(percentile(sorted, 90), 6.8, 1e-12);
  EXPECT_NEAR(percentile(sorted, 99), 7.88, 1e-12);
  EXPECT_EQ(percentile(sorted, 100), 8);
  EXPECT_EQ(percentile({}, 50), 0);
}

TEST(ExactStatistics, OfAFewValues) {
  const LatencyStatistics s = exact_statistics({4, 1, 2, 8});
  EXPECT_EQ(s.count, 4);
  EXPECT_EQ(s.mean, 3.75);
  EXPECT_EQ(s.median, 3);
  EXPECT_NEAR(s.standard_deviation, 2.680951324, 1e-9);  // numpy.std
  EXPECT_EQ(s.max, 8);
  EXPECT_EQ(exact_statistics({}).mean, 0);
}

TEST(LatencySketch, AgreesWithTheExactFigures) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Draws draws(seed, Draws::Stream::length, 0);
    LatencySketch sketch, half;
    std::vector<double> values;
    const auto n = draws.between(1, 5000);
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = 0.02 * std::exp(2 * draws.normal());
      values.push_back(value);
      (i % 2 == 0 ? sketch : half).add(value);
    }
    sketch.merge(half);
    const LatencyStatistics exact = exact_statistics(values), got = sketch.statistics();
    EXPECT_EQ(got.count, exact.count);
    EXPECT_NEAR(got.mean, exact.mean, exact.mean * 1e-9);
    EXPECT_NEAR(got.standard_deviation, exact.standard_deviation, exact.mean * 1e-6);
    EXPECT_EQ(got.max, exact.max);
    for (const auto& [a, b] :
         {std::pair(got.p50, exact.p50), {got.p90, exact.p90}, {got.p95, exact.p95}, {got.p99, exact.p99}})
      EXPECT_NEAR(a, b, b * 0.0026) << "seed " << seed << ", " << n << " values";
  }
}

TEST(LatencySketch, ExtremesAndNonsense) {
  LatencySketch sketch;
  EXPECT_EQ(sketch.statistics().p99, 0);
  sketch.add(std::nan(""));
  sketch.add(-3);
  sketch.add(1e-9);
  sketch.add(1e12);
  EXPECT_EQ(sketch.statistics().max, 1e12);
  EXPECT_EQ(sketch.percentile(0), 0);
  EXPECT_EQ(sketch.count(), 4);
}

TEST(RequestLatency, TpotNormalizedAndGoodput) {
  const RequestLatency r{.ttft_s = 0.5, .e2e_s = 2.5, .output_tokens = 5};
  EXPECT_EQ(r.tpot_s(), 0.5);
  EXPECT_EQ(r.normalized_s(), 0.5);
  EXPECT_TRUE(r.good({}));
  EXPECT_TRUE(r.good({.ttft_s = 0.5, .tpot_s = 0.5, .e2e_s = 2.5}));
  EXPECT_FALSE(r.good({.ttft_s = 0.4, .tpot_s = {}, .e2e_s = {}}));
  EXPECT_FALSE(r.good({.ttft_s = {}, .tpot_s = 0.49, .e2e_s = {}}));
  EXPECT_EQ((RequestLatency{.ttft_s = 1, .e2e_s = 1, .output_tokens = 1}).tpot_s(), 0);
}

}  // namespace
}  // namespace pagoda
