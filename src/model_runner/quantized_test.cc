// Goal: a quantised folder computes what the model of its dequantised weights computes, however it is stored
// and cut; and what a sequence gets does not depend on its batch. The folders of tests/fixtures/quantized are
// made by make_quantized.py there; a new one's is in here by itself.
#include <gtest/gtest.h>

#include <filesystem>

#include "model_runner/expect_golden.h"
#include "model_runner/test_ranks.h"

namespace pagoda::testing {
namespace {

const std::string kFolder = PAGODA_SOURCE_DIR "/tests/fixtures/quantized/";

std::vector<std::string> all_folders() {
  std::vector<std::string> names;
  for (const auto& folder : std::filesystem::directory_iterator(kFolder))
    names.push_back(folder.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class Quantized : public ::testing::TestWithParam<std::string> {
 protected:
  static RunnerOptions options(const std::string& dtype, std::int32_t threads) {
    RunnerOptions options;
    options.dtype = dtype;
    options.threads = threads;
    options.num_blocks = 100;
    options.max_num_batched_tokens = 128;
    options.max_context = 128;
    return options;
  }
  static std::unique_ptr<LocalModelRunner> runner(const std::string& dtype, std::int32_t threads = 1,
                                                  Backend backend = Backend::cpu) {
    auto source = ModelSource::open(kFolder + GetParam());
    if (!source) {
      ADD_FAILURE() << source.error().message();
      return nullptr;
    }
    RunnerOptions own = options(dtype, threads);
    own.backend = backend;
    auto runner = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), own);
    if (!runner) ADD_FAILURE() << runner.error().message();
    return runner ? *std::move(runner) : nullptr;
  }
  static std::vector<boost::json::object> goldens() {
    return read_json_lines(kFolder + GetParam() + "/golden.jsonl");
  }
};

TEST_P(Quantized, AgreesWithTheDequantisedModel) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const auto run = runner("float32", 2, backend);
    ASSERT_NE(run, nullptr);
    EXPECT_TRUE(run->ignored_tensors().empty()) << run->ignored_tensors().front();
    for (const boost::json::object& line : goldens())
      expect_golden(*run, run->kv_layout().block_size, line, 2e-4);
  }
}

// Each alone on one thread; then both together, in chunks, on two.
TEST_P(Quantized, BitsDependOnTheSequenceAlone) {
  for (const std::string dtype : {"auto", "float32"}) {
    const auto one = runner(dtype, 1), two = runner(dtype, 2);
    ASSERT_NE(one, nullptr);
    ASSERT_NE(two, nullptr);
    std::vector<TestSequence> alone;
    for (const boost::json::object& line : goldens()) alone.push_back(greedy(ids_of(line.at("prompt_ids"))));
    std::vector<TestSequence> together = alone;
    for (TestSequence& sequence : alone) {
      Driver driver(*one);
      ASSERT_TRUE(driver.generate({&sequence}, 8).ok());
    }
    Driver driver(*two);
    std::vector<TestSequence*> all;
    for (TestSequence& sequence : together) all.push_back(&sequence);
    ASSERT_TRUE(driver.generate(all, 8, 7).ok());
    for (std::size_t i = 0; i < alone.size(); ++i) expect_same_draws(together[i], alone[i]);
  }
}

// Cuts of columns, too: inside of groups and blocks.
TEST_P(Quantized, TwoRanksAgree) {
  TestRanks ranks(kFolder + GetParam(), options("float32", 1), 2);
  ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
  for (const boost::json::object& line : goldens()) expect_golden(*ranks.runner, 16, line, 2e-4);
  ranks.join();
  for (const Status& status : ranks.statuses) EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Folders, Quantized, ::testing::ValuesIn(all_folders()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pagoda::testing
