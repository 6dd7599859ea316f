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
  args.workload = "uniform:input=200,output=100,requests=400,seed=2";
  args.seeds = 1;
  args.output_json = (std::filesystem::path(testing::TempDir()) / "plan.json").string();
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

TEST(Plan, TheRateOfTwoIsAboutTwiceThatOfOneAndNeedsTwo) {
  PlanArgs args = plan_args();
  const double one = answer(args)["rate"].to_number<double>();
  args.replicas = 2;
  const double two = answer(args)["rate"].to_number<double>();
  // A request takes 100 steps of at least 18 ms, alone; memory holds about 60 of them.
  EXPECT_GT(one, 1);
  EXPECT_LT(one, 60 / (100 * 0.018));
  EXPECT_GT(two, 1.7 * one);
  args.rate = 1.3 * one;
  EXPECT_EQ(answer(args)["replicas"].to_number<int>(), 2);
}

TEST(Plan, SeveralDrawsGiveAnIntervalAroundTheAnswer) {
  PlanArgs args = plan_args();
  args.workload = "sharegpt:requests=150,seed=2";
  args.seeds = 5;
  const boost::json::object many = answer(args);
  const double rate = many.at("rate").to_number<double>();
  const double low = many.at("rate_interval").at(0).to_number<double>(),
               high = many.at("rate_interval").at(1).to_number<double>();
  EXPECT_LE(low, rate);
  EXPECT_LE(rate, high);
  EXPECT_LT(low, high);
  EXPECT_NE(many.at("warning").as_string().find("a bound"), std::string_view::npos);
  args.seeds = 1;
  const boost::json::object one = answer(args);
  EXPECT_EQ(one.at("rate_interval").at(0), one.at("rate_interval").at(1));
  EXPECT_LE(low, one.at("rate").to_number<double>()) << "the first draw is among them";
  EXPECT_GE(high, one.at("rate").to_number<double>());
}

TEST(Plan, TighterLimitsAllowLess) {
  PlanArgs args = plan_args();
  const double loose = answer(args)["rate"].to_number<double>();
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
  EXPECT_NE(run_plan(args).message().find("no rate holds"), std::string::npos);
  args.cost_model = "";
  EXPECT_NE(run_plan(args).message().find("--cost-model"), std::string::npos);
  args.cost_model = "a100-40gb/opt-13b/tp1";
  args.workload = "nonsense";
  EXPECT_FALSE(run_plan(args).ok());
}

}  // namespace
}  // namespace pagoda
