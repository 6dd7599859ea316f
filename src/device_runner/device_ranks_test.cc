// Goal: a model that is cut over several devices gives the bits of one device: eager and replayed, with
// prompts in chunks, in float32 and bfloat16, through windows and by a library of NCCL's calls; a lost rank
// is reported, and no rank waits forever. Method: ranks as threads of this process
// (model_runner/test_ranks.h), each with an emulated device, whose order of streams and times of arrival
// follow a seed; device/cuda/fake_nccl.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "device/emulated/emulated_device.h"
#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "device_runner/test_seeds.h"
#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"
#include "model_runner/test_ranks.h"
#include "models/read_config.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;
using device::emulated::EmulatedDevice;
using device::emulated::EmulatedOptions;

RunnerOptions options_of(const std::string& dtype = "float32") {
  RunnerOptions options;
  options.dtype = dtype;
  options.num_blocks = 100;
  options.max_context = 128;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.parallel.timeout = RankTimeout{60'000};
  return options;
}

struct Devices {
  GraphUse graphs = GraphUse::automatic;
  std::uint64_t seed = 5;
  std::int64_t lost_launch = 0;  // the last rank has it
  RankParts parts = RankParts::windows;
};

LoadRank load_on(const Devices& devices, std::int32_t size) {
  return [=](std::shared_ptr<const ModelSource> source,
             const RunnerOptions& options) -> Result<std::unique_ptr<RankRunner>> {
    const std::int32_t rank = options.parallel.rank();
    auto device = EmulatedDevice::create({.seed = devices.seed + static_cast<std::uint64_t>(rank),
                                          .lost_launch = rank == size - 1 ? devices.lost_launch : 0,
                                          .nccl = PAGODA_FAKE_NCCL});
    if (!device) return device.error();
    auto runner = DeviceModelRunner::create(std::move(source), options, *std::move(device),
                                            {.graphs = devices.graphs, .rank_parts = devices.parts});
    if (!runner) return runner.error();
    return std::unique_ptr<RankRunner>(*std::move(runner));
  };
}

// Three sequences: prompts of several lengths in chunks, scores of prompts, and steps of decode in which one
// ends before the others.
std::vector<TestSequence> generate(ModelRunner& runner, const RankRunner& local) {
  std::vector<TestSequence> sequences;
  const std::int32_t vocabulary = local.config().vocab_size;
  for (std::int32_t i = 0; i < 3; ++i) {
    std::vector<TokenId> prompt;
    for (std::int32_t t = 0; t < 3 + 7 * i; ++t) prompt.push_back((7 + 31 * t + 5 * i * t) % vocabulary);
    sequences.push_back(greedy(std::move(prompt)));
    sequences.back().prompt_logprobs = i == 1 ? 3 : -1;
  }
  Driver driver(runner, 16, local.kv_plan().groups);
  EXPECT_TRUE(driver.generate({&sequences[0], &sequences[1], &sequences[2]}, 3, 10).ok());
  EXPECT_TRUE(driver.generate({&sequences[0], &sequences[1]}, 6, 10).ok());
  return sequences;
}

std::vector<TestSequence> on_one(const std::string& model, const RunnerOptions& options) {
  auto source = ModelSource::open(model);
  CHECK(source);
  auto runner = load_on({.graphs = GraphUse::off}, 1)(*std::move(source), options);
  CHECK(runner);
  return generate(**runner, **runner);
}

void expect_same_ranks(const std::vector<TestSequence>& got, const std::vector<TestSequence>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE("sequence " + std::to_string(i));
    expect_same_draws(got[i], want[i]);
    ASSERT_EQ(got[i].prompt_scores.size(), want[i].prompt_scores.size());
    for (std::size_t t = 0; t < want[i].prompt_scores.size(); ++t)
      EXPECT_EQ(got[i].prompt_scores[t].chosen.logprob, want[i].prompt_scores[t].chosen.logprob);
  }
}

void expect_one_devices_bits(const std::string& model, std::int32_t size, const RunnerOptions& options,
                             const std::vector<TestSequence>& want, const Devices& devices) {
  SCOPED_TRACE(std::to_string(size) + " ranks, seed " + std::to_string(devices.seed));
  TestRanks ranks(model, options, size, true, {}, load_on(devices, size));
  ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
  expect_same_ranks(generate(*ranks.runner, ranks.runner->local()), want);
  const auto& first = dynamic_cast<const DeviceModelRunner&>(ranks.runner->local());
  if (devices.graphs == GraphUse::off) EXPECT_EQ(first.graph_stats().captured, 0);
  EXPECT_EQ(ranks.runner->steps().exchanges, 0);  // parts went by windows alone
  ranks.join();
  for (const Status& status : ranks.statuses) EXPECT_TRUE(status.ok()) << status.message();
}

using device::tries_all;

// Families whose layers are cut each in a way of their own, and those whose parts a library moves, too; where
// all is tried, all that can be.
const std::set<std::string> kTried = {"bloom", "deepseek_v3", "falcon_h1", "gpt_oss",
                                      "jamba", "lfm2",        "olmo3",     "qwen3_5"};
const std::set<std::string> kByLibrary = {"bloom", "deepseek_v3", "qwen3_5"};

std::vector<std::string> split_families() {
  return tries_all() ? all_families() : std::vector<std::string>(kTried.begin(), kTried.end());
}

class SplitFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(SplitFamily, HasTheBitsOfOneDevice) {
  const std::string folder = write_family(
      GetParam(), ::testing::TempDir() + "ranks_" + GetParam() + "_" + std::to_string(::getpid()));
  const auto source = ModelSource::open(folder);
  ASSERT_TRUE(source);
  const Status split =
      DecoderModel::check_split(**source, "float32", 2, ExchangeKind::gather, MixtureCut::features);
  const Result<ModelInfo> info = read_model_config(**source);
  ASSERT_TRUE(info);
  const bool sparse = std::ranges::any_of(info->decoder.layers, [](const LayerConfig& layer) {
    return std::holds_alternative<SparseFeedForwardConfig>(layer.feed_forward);
  });
  if (!split.ok() || sparse) {
    EXPECT_FALSE(kTried.contains(GetParam())) << split.message();
    GTEST_SKIP() << split.message();
  }
  if (!info->decoder.head) GTEST_SKIP() << "makes vectors";
  const std::vector<TestSequence> want = on_one(folder, options_of());
  expect_one_devices_bits(folder, 2, options_of(), want, {.graphs = GraphUse::check});
  if (tries_all() || kByLibrary.contains(GetParam()))
    expect_one_devices_bits(folder, 2, options_of(), want, {.parts = RankParts::library});
  if (tries_all())
    expect_one_devices_bits(folder, 2, options_of(), want, {.graphs = GraphUse::off, .seed = 9});
  std::filesystem::remove_all(folder);
}
INSTANTIATE_TEST_SUITE_P(All, SplitFamily, ::testing::ValuesIn(split_families()),
                         [](const auto& info) { return info.param; });

TEST(DeviceRanks, AnyNumberHasTheBitsOfOneDevice) {
  for (const std::string_view dtype : {"float32", "bfloat16"})
    for (const std::string_view name : {"llama", "mixtral"}) {
      if (!tries_all() && (dtype == "float32") != (name == "llama")) continue;
      SCOPED_TRACE(std::string(name) + " " + std::string(dtype));
      const RunnerOptions options = options_of(std::string(dtype));
      const std::string model = fixture(std::string(name));
      const std::vector<TestSequence> want = on_one(model, options);
      for (const std::int32_t size : {2, 4})
        for (std::uint64_t seed = 0; seed < std::max<std::uint64_t>(2, num_seeds() / 10); ++seed)
          for (const RankParts parts : {RankParts::windows, RankParts::library})
            if (parts == RankParts::windows || seed == 0)
              expect_one_devices_bits(model, size, options, want,
                                      {.graphs = seed % 2 == 0 ? GraphUse::automatic : GraphUse::off,
                                       .seed = seed,
                                       .parts = parts});
    }
}

TEST(DeviceRanks, QuantisedWeightsHaveTheBitsOfOneDevice) {
  const std::string model = fixture("llama_gguf_quantized") + "/model.gguf";
  const RunnerOptions options = options_of("bfloat16");
  expect_one_devices_bits(model, 2, options, on_one(model, options), {});
}

TEST(DeviceRanks, AHeadOfKeysOnSeveralRanksHasTheBitsOfOneDevice) {
  const RunnerOptions options = options_of();
  expect_one_devices_bits(fixture("gemma3"), 4, options, on_one(fixture("gemma3"), options), {});
}

// Without the bits of one device, sums are right, and a step that is replayed has those of an eager one.
TEST(DeviceRanks, SumsOfALibraryAreRight) {
  for (const char* name : {"llama", "mixtral"}) {
    SCOPED_TRACE(name);
    const std::vector<TestSequence> want = on_one(fixture(name), options_of());
    TestRanks ranks(fixture(name), options_of(), 3, false, {},
                    load_on({.graphs = GraphUse::check, .parts = RankParts::library}, 3));
    ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
    const std::vector<TestSequence> got = generate(*ranks.runner, ranks.runner->local());
    EXPECT_GT(dynamic_cast<const DeviceModelRunner&>(ranks.runner->local()).graph_stats().replayed, 0);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].tokens, want[i].tokens);
      for (std::size_t t = 0; t < want[i].prompt_scores.size(); ++t)
        EXPECT_NEAR(got[i].prompt_scores[t].chosen.logprob, want[i].prompt_scores[t].chosen.logprob, 1e-3);
    }
  }
}

// Keys and values are planned from what is left once the ranks are connected: groups of the library take
// memory.
TEST(DeviceRanks, PlansWithWhatIsFreeBehindTheConnection) {
  for (const RankParts parts : {RankParts::windows, RankParts::library}) {
    RunnerOptions options = options_of();
    options.num_blocks = 0;
    TestRanks ranks(fixture("llama"), options, 2, true, {}, load_on({.parts = parts}, 2));
    ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
    const RankRunner& first = ranks.runner->local();
    const std::int64_t free = first.device_free_bytes() - first.memory_plan().graph_bytes,
                       planned = ranks.runner->totals().device_bytes / 2;
    EXPECT_LE(planned, free);
    EXPECT_GT(planned, free - 2 * first.kv_page_bytes());
  }
}

TEST(DeviceRanks, ADeviceWithoutTheLibraryRefusesIt) {
  const LoadRank load = [](std::shared_ptr<const ModelSource> source,
                           const RunnerOptions& options) -> Result<std::unique_ptr<RankRunner>> {
    auto device = EmulatedDevice::create({.nccl = options.parallel.rank() == 0 ? "" : PAGODA_FAKE_NCCL});
    if (!device) return device.error();
    auto runner = DeviceModelRunner::create(std::move(source), options, *std::move(device),
                                            {.rank_parts = RankParts::library});
    if (!runner) return runner.error();
    return std::unique_ptr<RankRunner>(*std::move(runner));
  };
  TestRanks ranks(fixture("llama"), options_of(), 2, true, {}, load);
  EXPECT_EQ(ranks.status.message(),
            "--disable-custom-all-reduce: an emulated device has no NCCL (nccl=FILE names a library with its "
            "calls)");
}

class LostRank : public ::testing::TestWithParam<RankParts> {};
INSTANTIATE_TEST_SUITE_P(All, LostRank, ::testing::Values(RankParts::windows, RankParts::library),
                         [](const auto& info) {
                           return info.param == RankParts::windows ? "windows" : "library";
                         });

TEST_P(LostRank, IsToldOf) {
  RunnerOptions options = options_of();
  options.parallel.timeout = RankTimeout{2'000};
  TestRanks ranks(fixture("llama"), options, 2, true, {},
                  load_on({.lost_launch = 150, .parts = GetParam()}, 2));
  ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
  TestSequence sequence = greedy({5, 9, 3});
  Driver driver(*ranks.runner, 16, ranks.runner->local().kv_plan().groups);
  const Status status = driver.generate({&sequence}, 20);
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_NE(status.message().find("rank 1 gave up: the emulated device is lost"), std::string::npos)
      << status.message();
  ranks.join();
  EXPECT_NE(ranks.statuses[1].message().find("the emulated device is lost"), std::string::npos)
      << ranks.statuses[1].message();
}

TEST_P(LostRank, SleepAndWakeKeepTheBits) {
  const std::string model = fixture("llama");
  RunnerOptions options = options_of();
  options.reopen = [model]() -> Result<std::shared_ptr<const ModelSource>> {
    auto source = ModelSource::open(model);
    if (!source) return source.error();
    return std::shared_ptr<const ModelSource>(*std::move(source));
  };
  TestRanks ranks(model, options, 2, true, {}, load_on({.parts = GetParam()}, 2));
  ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
  const std::vector<TestSequence> before = generate(*ranks.runner, ranks.runner->local());
  for (const auto content : {ModelRunner::KvContent::keep, ModelRunner::KvContent::drop}) {
    ASSERT_TRUE(ranks.runner->release_memory(content).ok());
    ASSERT_TRUE(ranks.runner->load_weights().ok());
    expect_same_ranks(generate(*ranks.runner, ranks.runner->local()), before);
  }
}

}  // namespace
}  // namespace pagoda::device_runner
