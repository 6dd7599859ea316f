// Plans against each other and against what a single server can do at most.
#include "cli/simulate/plan_command.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace pagoda {
namespace {

PlanArgs plan_args() {
  PlanArgs args;
  args.cost_model = "a100-40gb/opt-13b/tp1";
  args.workload = "uniform:input=50,output=10,seed=2";
  args.engine.max_num_seqs = 8;
  args.seeds = 4;
  args.output_json = (std::filesystem::path(::testing::TempDir()) / "plan.json").string();
  return args;
}

boost::json::object answer(const PlanArgs& args) {
  const Status status = run_plan(args);
  EXPECT_TRUE(status.ok()) << status.message();
  std::ifstream file(args.output_json);
  std::ostringstream text;
  text << file.rdbuf();
  return boost::json::parse(text.str()).as_object();
}

// The rate of one server within the default limits.
double rate_of_one() {
  static const double rate = answer(plan_args())["rate"].to_number<double>();
  return rate;
}

TEST(Plan, TheRateOfTwoIsAboutTwiceThatOfOneAndNeedsTwo) {
  PlanArgs args = plan_args();
  const double one = rate_of_one();
  args.replicas = 2;
  const double two = answer(args)["rate"].to_number<double>();
  // A request takes 10 steps of at least 18 ms, and 8 are in a step.
  EXPECT_GT(one, 10);
  EXPECT_LT(one, 8 / (10 * 0.018));
  EXPECT_GT(two, 1.7 * one);
  args.rate = 1.3 * one;
  EXPECT_EQ(answer(args)["replicas"].to_number<int>(), 2);
}

TEST(Plan, AnIntervalIsAroundTheAnswer) {
  PlanArgs args = plan_args();
  args.workload = "alpaca:max_len=48,seed=2";
  const boost::json::object many = answer(args);
  const double rate = many.at("rate").to_number<double>();
  const double low = many.at("rate_interval").at(0).to_number<double>(),
               high = many.at("rate_interval").at(1).to_number<double>();
  EXPECT_LE(low, rate);
  EXPECT_LE(rate, high);
  EXPECT_LT(low, high);
  EXPECT_GE(many.at("capacity").to_number<double>(), low);
  EXPECT_GE(many.at("requests").to_number<int>(), 1000);
  EXPECT_NE(many.at("warning").as_string().find("an upper bound"), std::string_view::npos);
}

TEST(Plan, TighterLimitsAllowLess) {
  PlanArgs args = plan_args();
  const double loose = rate_of_one();
  args.ttft_ms = 100;
  args.tpot_ms = 30;
  const boost::json::object tight = answer(args);
  EXPECT_LT(tight.at("rate").to_number<double>(), loose);
  EXPECT_LE(tight.at("ttft_p99_s").to_number<double>(), 0.1);
  EXPECT_LE(tight.at("tpot_p99_s").to_number<double>(), 0.03);
}

TEST(Plan, WhatCannotBeIsSaid) {
  PlanArgs args = plan_args();
  args.tpot_ms = 1;  // a step takes 18
  EXPECT_NE(run_plan(args).message().find("no rate is possible"), std::string::npos);
  args.cost_model = "";
  EXPECT_NE(run_plan(args).message().find("--cost-model"), std::string::npos);
  args.cost_model = "a100-40gb/opt-13b/tp1";
  args.workload = "nonsense";
  EXPECT_FALSE(run_plan(args).ok());
  for (const char* chosen : {"alpaca:rate=3", "alpaca:duration=60"}) {
    args.workload = chosen;
    EXPECT_NE(run_plan(args).message().find("leave out rate and duration"), std::string::npos);
  }
}

}  // namespace
}  // namespace pagoda
