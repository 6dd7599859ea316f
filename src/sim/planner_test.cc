// Plans against the capacity of a queue that is known, against much longer runs, and against bursts.
#include "sim/planner.h"

#include "cli/simulate/simulation_setup.h"
#include "sim/test_support.h"

namespace pagoda {
namespace {

using namespace sim_test;

// A machine with a step of 10 ms for up to `sequences` at once.
PlanQuestion question(const std::string& workload, std::int32_t sequences = 4) {
  EngineFlags flags;
  flags.max_num_seqs = sequences;
  flags.max_queue = std::numeric_limits<std::int32_t>::max();
  auto options = simulation_options(flags, plain_cost_model());
  EXPECT_TRUE(options);
  auto spec = parse_workload_spec(workload);
  EXPECT_TRUE(spec);
  return {.options = *options,
          .workload = *spec,
          .limits = {.ttft_p99_s = 1, .tpot_p99_s = 0.1},
          .rate = {},
          .replicas = 1,
          .num_draws = 3};
}

PlanAnswer answer(const PlanQuestion& asked) {
  const auto out = plan(asked, [](const std::string&) {});
  EXPECT_TRUE(out) << (out ? "" : out.error().message());
  return out ? *out : PlanAnswer{};
}

std::string refusal(const PlanQuestion& asked) {
  const auto out = plan(asked, [](const std::string&) {});
  EXPECT_FALSE(out);
  return out ? "" : std::string(out.error().message());
}

TEST(Planner, StaysBelowTheCapacityOfTheMachine) {
  // Five steps of 10 ms each for four at once.
  const PlanAnswer found = answer(question("uniform:input=1,output=5"));
  EXPECT_NEAR(found.capacity, 4 / 0.050, 0.05 * 80);
  EXPECT_LT(found.most_rate, 1.08 * 80);
  EXPECT_GT(found.least_rate, 60);
  EXPECT_LT(found.least_rate, 80);
  EXPECT_LE(found.least_rate, found.rate);
  EXPECT_GE(found.most_rate, found.rate);
}

TEST(Planner, ABurstIsNoSteadyState) {
  // 60 requests at once are all within a second: their rate says nothing.
  const PlanAnswer few = answer(question("uniform:input=1,output=5,requests=60"));
  const PlanAnswer many = answer(question("uniform:input=1,output=5,requests=8000"));
  EXPECT_LT(few.most_rate, 1.08 * 80);
  EXPECT_GE(few.most_rate, many.least_rate);
  EXPECT_LE(few.least_rate, many.most_rate);
}

TEST(Planner, IntervalsHoldInRunsTwentyTimesAsLong) {
  struct Case {
    const char* workload;
    double ttft_p99_s;
  };
  for (const Case& one : {Case{"uniform:input=1-20,output=1-3", 0.1}, {"uniform:input=1,output=2-4", 0.05}}) {
    SCOPED_TRACE(one.workload);
    PlanQuestion asked = question(one.workload);
    asked.limits.ttft_p99_s = one.ttft_p99_s;
    asked.num_draws = 5;
    const PlanAnswer found = answer(asked);
    const auto late = [&](double rate) {
      WorkloadSpec spec = asked.workload;
      spec.rate = rate;
      spec.seed = 77;
      spec.num_requests = 20 * found.num_requests;
      const auto run = steady_run(asked.options, spec, asked.limits, 2 * kLateShare);
      EXPECT_TRUE(run);
      return std::max(run->late_ttft, run->late_tpot);
    };
    EXPECT_LE(late(found.least_rate), kLateShare) << found.least_rate << " of " << found.rate;
    EXPECT_GT(late(found.most_rate), kLateShare) << found.most_rate << " of " << found.rate;
    EXPECT_LT(found.most_rate, 1.3 * found.least_rate) << "an interval that says something";
  }
}

TEST(Planner, TheReplicasOfARateHoldItAndOneLessDoesNot) {
  PlanQuestion asked = question("uniform:input=1,output=5");
  asked.options.router = RouterKind::least_loaded;
  asked.rate = 150;  // two replicas of 80 each
  const PlanAnswer found = answer(asked);
  EXPECT_EQ(found.replicas, 2);
  EXPECT_EQ(found.least_rate, 150);
  EXPECT_NEAR(found.capacity, 160, 8);
}

TEST(Planner, ATraceIsRepeatedUntilItsRunsAreLongEnough) {
  const std::string path = ::testing::TempDir() + "/plan_trace.jsonl";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  for (int i = 0; i < 10; ++i)
    std::fputs("{\"prompt_tokens\": 1, \"output_tokens\": 5, \"arrival_s\": null}\n", file);
  std::fclose(file);
  const PlanAnswer found = answer(question("trace:" + path));
  EXPECT_GE(found.num_requests, 4000);
  EXPECT_NEAR(found.capacity, 80, 4);
}

TEST(Planner, ASmallCalibrationIsRefused) {
  PlanQuestion asked = question("uniform:input=1,output=5", 16);
  asked.options.cost.fitted_steps = 150;
  EXPECT_NE(refusal(asked).find("calibration is too small: it has 150 steps"), std::string::npos);
  asked.options.cost.fitted_steps = 5000;
  asked.options.cost.fitted_sequences = 4;
  EXPECT_NE(refusal(asked).find("has seen no more than 4"), std::string::npos);
  asked.options.cost.fitted_sequences = 16;
  answer(asked);
}

TEST(Planner, LimitsBelowASingleRequestAreRefused) {
  PlanQuestion asked = question("uniform:input=1,output=5");
  asked.limits.tpot_p99_s = 0.001;
  EXPECT_NE(refusal(asked).find("no rate is possible"), std::string::npos);
}

}  // namespace
}  // namespace pagoda
