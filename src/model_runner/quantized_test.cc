// Goal: a quantised folder computes what the model of its dequantised weights computes, however it is stored
// and cut, or, where its scheme quantises activations, what the scheme computes; and what a sequence gets
// does not depend on its batch. The folders of tests/fixtures/quantized are made by make_quantized.py there;
// a new one's is in here by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "kernels/testing.h"
#include "loader/safetensors.h"
#include "loader/test_files.h"
#include "model_runner/expect_golden.h"
#include "model_runner/test_ranks.h"

namespace pagoda::testing {
namespace {

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
                                                  Backend backend = Backend::cpu,
                                                  bool quantize_activations = false,
                                                  std::optional<CpuLevel> level = {},
                                                  const std::string& kv_cache_dtype = "auto") {
    auto source =
        ModelSource::open(kQuantizedFolders + GetParam(), {}, {.quantize_activations = quantize_activations});
    if (!source) {
      ADD_FAILURE() << source.error().message();
      return nullptr;
    }
    RunnerOptions own = options(dtype, threads);
    own.backend = backend;
    own.cpu_level = level;
    own.kv_cache_dtype = kv_cache_dtype;
    auto runner = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), own);
    if (!runner) ADD_FAILURE() << runner.error().message();
    return runner ? *std::move(runner) : nullptr;
  }
  static std::vector<boost::json::object> goldens(const std::string& file = "golden.jsonl") {
    return read_json_lines(kQuantizedFolders + GetParam() + "/" + file);
  }
};

class QuantizedActivations : public Quantized {};

TEST_P(Quantized, AgreesWithTheDequantisedModel) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const auto run = runner("float32", 2, backend);
    ASSERT_NE(run, nullptr);
    EXPECT_TRUE(run->ignored_tensors().empty()) << run->ignored_tensors().front();
    for (const boost::json::object& line : goldens())
      expect_golden(*run, run->kv_layout().block_size, line, 2e-4);
  }
}

// In the scheme's own arithmetic, at every CPU level.
TEST_P(QuantizedActivations, AgreeWithTheSchemesProducts) {
  std::vector<std::unique_ptr<LocalModelRunner>> runners;
  runners.push_back(runner("float32", 2, Backend::reference, true));
  for (const CpuLevel level : levels_here())
    runners.push_back(runner("float32", 2, Backend::cpu, true, level));
  for (const auto& run : runners) {
    ASSERT_NE(run, nullptr);
    EXPECT_TRUE(run->ignored_tensors().empty()) << run->ignored_tensors().front();
    for (const boost::json::object& line : goldens("scheme.jsonl"))
      expect_golden(*run, run->kv_layout().block_size, line, 2e-4);
  }
}

// With packed weights and their rounding, too: nearer to the scheme than the scheme to the exact products. K
// and V in float16, since bfloat16 moves these few tokens as far as the scheme does.
TEST_P(QuantizedActivations, AreTheSchemesInDtypeAuto) {
  const auto run = runner("auto", 2, Backend::cpu, true, {}, "float16"), exact = runner("float32", 2);
  ASSERT_NE(run, nullptr);
  ASSERT_NE(exact, nullptr);
  double lost = 0, apart = 0;
  for (const boost::json::object& line : goldens("scheme.jsonl")) {
    const std::vector<double> expected = numbers_of(line.at("prompt_logprobs"));
    for (const auto& [runner, sum] : {std::pair{run.get(), &lost}, {exact.get(), &apart}}) {
      Driver driver(*runner, runner->kv_layout().block_size);
      TestSequence sequence = greedy(ids_of(line.at("prompt_ids")));
      sequence.prompt_logprobs = 0;
      ASSERT_TRUE(driver.step({&sequence}, 1 << 20).ok());
      for (std::size_t i = 0; i < expected.size(); ++i)
        *sum += std::fabs(sequence.prompt_scores[i].chosen.logprob - expected[i]);
    }
  }
  EXPECT_LT(lost, apart);
}

// Each alone on one thread; then both together, in chunks, on two.
TEST_P(Quantized, BitsDependOnTheSequenceAlone) {
  for (const std::string dtype : {"auto", "float32"}) {
    const auto one = runner(dtype, 1, Backend::cpu, true), two = runner(dtype, 2, Backend::cpu, true);
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
  TestRanks ranks(kQuantizedFolders + GetParam(), options("float32", 1), 2, true,
                  {.quantize_activations = false});
  ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
  const std::vector<KvGroup> groups = ranks.runner->local().kv_plan().groups;
  for (const boost::json::object& line : goldens())
    expect_golden(Driver(*ranks.runner, 16, groups), line, 2e-4);
  ranks.join();
  for (const Status& status : ranks.statuses) EXPECT_TRUE(status.ok()) << status.message();
}

// gpt-oss' form has its powers of two in tensors of their own; 255 is no power.
TEST(QuantizedFolder, WithAScaleThatIsNoNumberIsRefused) {
  const std::string from = kQuantizedFolders + "mxfp4_stacked", to = ::testing::TempDir() + "mxfp4_damaged";
  std::filesystem::create_directories(to);
  std::filesystem::copy(
      from, to, std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
  const auto file = SafetensorsFile::open(from + "/model.safetensors");
  ASSERT_TRUE(file) << file.error().message();
  std::int64_t at = 0;
  for (const FileTensor& tensor : file->tensor_list())
    if (tensor.name.ends_with("gate_up_proj_scales"))
      at = tensor.data + tensor.bytes - 1 - file->file()->bytes().data();
  ASSERT_GT(at, 0);
  const auto refusal = [&] {
    auto source = ModelSource::open(to);
    if (!source) return source.error().message();
    RunnerOptions options;
    options.num_blocks = 100;
    const auto runner =
        LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
    return runner ? std::string() : runner.error().message();
  };
  EXPECT_EQ(refusal(), "");
  std::fstream damaged(to + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(at);
  damaged.put('\xff');
  damaged.close();
  EXPECT_NE(refusal().find("has a scale that is not a number"), std::string::npos) << refusal();
  std::filesystem::remove_all(to);
}

INSTANTIATE_TEST_SUITE_P(Folders, Quantized,
                         ::testing::ValuesIn(folders_with(kQuantizedFolders, "golden.jsonl")),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Folders, QuantizedActivations,
                         ::testing::ValuesIn(folders_with(kQuantizedFolders, "scheme.jsonl")),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pagoda::testing
