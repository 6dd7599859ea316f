// Goal: a model with a LoRA adapter merged into it answers as PEFT does with the adapter beside it, in
// float32 to 1e-3 of a log-probability. The adapters of tests/fixtures/adapters are made by make_adapters.py
// there; a new one's is in here by itself.
#include <gtest/gtest.h>

#include <set>

#include "cli/assembly/model_overrides.h"
#include "loader/test_files.h"
#include "model_runner/expect_golden.h"

namespace pagoda::testing {
namespace {

const std::string kFixtures = PAGODA_SOURCE_DIR "/tests/fixtures/";
const std::string kAdapters = kFixtures + "adapters/";

std::unique_ptr<LocalModelRunner> adapted(const std::string& model, const std::vector<AdapterFlag>& adapters,
                                          const std::string& dtype, std::int32_t threads, Backend backend) {
  auto source = open_with_adapters(kFixtures + "tiny_models/" + model, {}, adapters);
  if (!source) {
    ADD_FAILURE() << source.error().message();
    return nullptr;
  }
  RunnerOptions options;
  options.dtype = dtype;
  options.threads = threads;
  options.num_blocks = 100;
  options.max_num_batched_tokens = 128;
  options.backend = backend;
  auto runner = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  if (!runner) ADD_FAILURE() << runner.error().message();
  return runner ? *std::move(runner) : nullptr;
}

class Adapters : public ::testing::TestWithParam<std::string> {
 protected:
  static boost::json::object golden() {
    return read_json_lines(kAdapters + GetParam() + "/golden.jsonl").front();
  }
  static std::string model() { return std::string(golden().at("model").as_string()); }
};

TEST_P(Adapters, AnswerAsPeftDoes) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const auto run = adapted(model(), {{kAdapters + GetParam()}}, "float32", 2, backend);
    ASSERT_NE(run, nullptr);
    EXPECT_TRUE(run->ignored_tensors().empty()) << run->ignored_tensors().front();
    expect_golden(*run, run->kv_layout().block_size, golden());
  }
}

// Rows are made on any number of threads, and a sum at SCALE 0 leaves what `modules_to_save` says.
TEST_P(Adapters, GiveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<TestSequence> drawn;
  for (const std::int32_t threads : {1, 3}) {
    const auto run = adapted(model(), {{kAdapters + GetParam()}}, "auto", threads, Backend::cpu);
    ASSERT_NE(run, nullptr);
    drawn.push_back(greedy(ids_of(golden().at("prompt_ids"))));
    Driver driver(*run);
    ASSERT_TRUE(driver.generate({&drawn.back()}, 6).ok());
  }
  expect_same_draws(drawn[1], drawn[0]);
}

INSTANTIATE_TEST_SUITE_P(All, Adapters, ::testing::ValuesIn(folders_with(kAdapters, "golden.jsonl")),
                         [](const auto& info) { return info.param; });

// Sums are added one after the other: the same adapter at half its scale, twice.
TEST(AdaptersTogether, AreAdded) {
  const std::string plain = kAdapters + "plain";
  const auto run = adapted("llama", {{plain, 0.25}, {plain, 0.75}}, "float32", 2, Backend::cpu);
  ASSERT_NE(run, nullptr);
  expect_golden(*run, run->kv_layout().block_size, read_json_lines(plain + "/golden.jsonl").front());
}

TEST(AdaptersTogether, OfScaleZeroChangeNothing) {
  const std::string own = kFixtures + "tiny_models/llama/golden.jsonl";
  const auto run = adapted("llama", {{kAdapters + "plain", 0}}, "float32", 2, Backend::cpu);
  ASSERT_NE(run, nullptr);
  for (const boost::json::object& line : read_json_lines(own))
    expect_golden(*run, run->kv_layout().block_size, line);
}

// Packed weights that are kept on disk belong to the model and the adapter together.
TEST(AdaptersTogether, HaveAnIdentityOfTheirOwn) {
  std::set<std::string> identities;
  const auto add = [&](const std::vector<AdapterFlag>& adapters) {
    const auto source = open_with_adapters(kFixtures + "tiny_models/llama", {}, adapters);
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_TRUE(identities.insert((*source)->identity()).second);
    EXPECT_TRUE((*source)->unchanged());
  };
  add({});
  add({{kAdapters + "plain"}});
  add({{kAdapters + "plain", 2}});
  add({{kAdapters + "dora"}});
  add({{kAdapters + "plain"}, {kAdapters + "dora"}});
}

TEST(AdaptersTogether, OfAnotherModelAreRefused) {
  const auto refusal = [](const std::string& model, const std::string& adapter) {
    const auto source =
        open_with_adapters(kFixtures + "tiny_models/" + model, {}, std::vector<AdapterFlag>{{adapter}});
    return source ? std::string("opened") : source.error().message();
  };
  EXPECT_NE(refusal("gpt2", kAdapters + "plain").find("which the model does not have"), std::string::npos);
  EXPECT_NE(refusal("qwen3", kAdapters + "plain").find("it is of another model"), std::string::npos);
  EXPECT_NE(refusal("llama_gguf_f16/model.gguf", kAdapters + "plain").find("the model is a GGUF file"),
            std::string::npos);
  EXPECT_NE(refusal("llama", kFixtures + "tiny_models/llama").find("holds no adapter"), std::string::npos);
  EXPECT_NE(refusal("llama", "none/here").find("there is no adapter 'none/here'"), std::string::npos);
}

}  // namespace
}  // namespace pagoda::testing
