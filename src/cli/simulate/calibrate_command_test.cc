// The whole of `bench calibrate` on a small model, and from a log of a run of it: what it writes is a cost
// model with which the simulator runs.
#include "cli/simulate/calibrate_command.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/assembly/assemble.h"
#include "cli/commands/output_collector.h"
#include "cli/simulate/simulate_command.h"
#include "sim/cost_model.h"

namespace pagoda {
namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) / name).string();
}

CalibrateArgs small() {
  CalibrateArgs args;
  args.engine.model = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/llama";
  args.engine.threads = 1;
  args.engine.kv_cache_memory_bytes = 1 << 20;
  args.max_batch = 4;
  return args;
}

void expect_usable(const std::string& path) {
  const auto model = load_cost_model(path);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_GE(model->linear_points.size(), 2u);
  EXPECT_GT(model->linear_points.back().seconds, 0);
  EXPECT_EQ(model->map_page_bytes, 4096);
  EXPECT_EQ(model->max_num_batched_tokens, 256) << "serve's";
  EXPECT_GT(model->map_call_s + model->map_page_s, 0);
  SimulateArgs args;
  args.cost_model = path;
  args.workload = "uniform:input=1-20,output=1-20,requests=50,rate=100";
  EXPECT_TRUE(run_simulate(args).ok());
}

TEST(Calibrate, MeasuresASmallModel) {
  CalibrateArgs args = small();
  args.output = temporary("cost.json");
  const Status status = run_bench_calibrate(args);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_usable(args.output);
}

TEST(Calibrate, TakesTheStepsOfALog) {
  CalibrateArgs args = small();
  {
    EngineFlags flags = args.engine;
    flags.record = temporary("calibrate.log");
    auto engine = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
    ASSERT_TRUE(engine);
    OutputCollector collector;
    for (std::uint64_t i = 1; i <= 8; ++i) {
      Request request;
      request.id = RequestId{i};
      request.prompt_token_ids.assign(3 * i, 5);
      request.sampling.max_tokens = 12;
      request.sampling.ignore_eos = true;
      ASSERT_TRUE((*engine)->client().submit(std::move(request), collector.make_sink()).ok());
    }
    for (int left = 8; left > 0;)
      for (const OutputCollector::Item& item : collector.take()) left -= item.output.finished ? 1 : 0;
    (*engine)->stop();
    args.logs = {flags.record};
  }
  args.output = temporary("cost_of_log.json");
  const Status status = run_bench_calibrate(args);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_usable(args.output);
}

}  // namespace
}  // namespace pagoda
