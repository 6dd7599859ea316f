// Goal: every architecture computes what an independent implementation computes on the same weights, in
// float32 to 1e-3 of a log-probability. Committed fixtures come from numpy
// (tests/fixtures/make_tiny_models.py), shared ones from transformers; the default model is used where it has
// been fetched.
#include <gtest/gtest.h>

#include <cmath>

#include "model_runner/test_sequences.h"

namespace pagoda::testing {
namespace {

constexpr double kTolerance = 1e-3;

std::unique_ptr<LocalModelRunner> open_runner(const std::string& path, RunnerOptions options) {
  auto source = ModelSource::open(path);
  if (!source) {
    ADD_FAILURE() << source.error().message();
    return nullptr;
  }
  auto runner = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  if (!runner) {
    ADD_FAILURE() << runner.error().message();
    return nullptr;
  }
  return *std::move(runner);
}

RunnerOptions float32_options(Backend backend = Backend::cpu) {
  RunnerOptions options;
  options.dtype = "float32";
  options.num_blocks = 200;
  options.max_num_batched_tokens = 2048;
  options.backend = backend;
  return options;
}

void expect_top(const std::vector<TokenLogprob>& got, const boost::json::value& expected) {
  const boost::json::array& entries = expected.as_array();
  ASSERT_GE(got.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const double want = entries[i].as_array()[1].to_number<double>();
    EXPECT_NEAR(got[i].logprob, want, kTolerance);
    const bool near_tie =
        (i > 0 && entries[i - 1].as_array()[1].to_number<double>() - want < kTolerance) ||
        (i + 1 < entries.size() && want - entries[i + 1].as_array()[1].to_number<double>() < kTolerance) ||
        i + 1 == entries.size();
    if (!near_tie) EXPECT_EQ(got[i].token, entries[i].as_array()[0].to_number<TokenId>());
  }
}

// One golden line: the prompt with its log-probabilities, then the golden's own continuation, token by token.
void expect_golden(LocalModelRunner& runner, const boost::json::object& line) {
  SCOPED_TRACE(line.contains("name") ? std::string(line.at("name").as_string()) : "unnamed");
  Driver driver(runner);
  TestSequence sequence = greedy(ids_of(line.at("prompt_ids")));
  sequence.prompt_logprobs = 10;
  ASSERT_TRUE(driver.step({&sequence}, 1 << 20).ok());

  // Some long prompts come without log-probabilities.
  if (line.contains("prompt_logprobs") && line.at("prompt_logprobs").is_array()) {
    const std::vector<double> expected = numbers_of(line.at("prompt_logprobs"));
    ASSERT_EQ(sequence.prompt_scores.size(), sequence.tokens.size() - 1);
    if (!expected.empty()) ASSERT_EQ(sequence.prompt_scores.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(sequence.prompt_scores[i].chosen.logprob, expected[i], kTolerance)
          << "prompt token " << i + 1;
    }
  }
  if (const boost::json::value* top = line.if_contains("prompt_top10")) {
    for (std::size_t i = 0; i < sequence.prompt_scores.size(); ++i) {
      expect_top(sequence.prompt_scores[i].top, top->as_array()[i]);
    }
  }

  const std::vector<TokenId> ids = ids_of(line.at("greedy_ids"));
  const std::vector<double> logprobs = numbers_of(line.at("greedy_logprobs"));
  const boost::json::value* top = line.if_contains("greedy_top5");
  if (top == nullptr) top = line.if_contains("top5");
  const std::vector<double> gaps =
      line.contains("gap") ? numbers_of(line.at("gap")) : std::vector<double>(ids.size(), 1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Candidate& got = sequence.sampled.back();
    if (gaps[i] > kTolerance) EXPECT_EQ(got.token, ids[i]) << "step " << i;
    if (got.token == ids[i]) EXPECT_EQ(got.rank, 1);
    EXPECT_NEAR(got.logprob, logprobs[i], kTolerance) << "step " << i;
    if (top != nullptr) expect_top(sequence.top.back(), top->as_array()[i]);
    if (i + 1 == ids.size()) break;
    sequence.tokens.push_back(ids[i]);
    ASSERT_TRUE(driver.step({&sequence}, 1).ok());
  }
}

void expect_goldens(const std::string& model, const std::string& goldens, const RunnerOptions& options) {
  const auto runner = open_runner(model, options);
  ASSERT_NE(runner, nullptr);
  const auto lines = read_json_lines(goldens);
  ASSERT_FALSE(lines.empty());
  for (const boost::json::object& line : lines) expect_golden(*runner, line);
}

class Fixture : public ::testing::TestWithParam<const char*> {};

TEST_P(Fixture, AgreesWithNumpy) {
  const std::string folder = fixture(GetParam());
  const std::string gguf = folder + "/model.gguf";
  const std::string model = std::filesystem::exists(gguf) ? gguf : folder;
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    SCOPED_TRACE(backend == Backend::cpu ? "cpu" : "reference");
    expect_goldens(model, folder + "/golden.jsonl", float32_options(backend));
  }
}
INSTANTIATE_TEST_SUITE_P(Models, Fixture,
                         ::testing::Values("opt", "opt_post_norm", "gpt2", "gpt2_no_prefix", "llama",
                                           "mistral", "qwen2", "qwen3", "llama_gguf_f16",
                                           "llama_gguf_quantized"),
                         [](const auto& info) { return std::string(info.param); });

class Shared : public ::testing::TestWithParam<const char*> {};

TEST_P(Shared, AgreesWithTransformers) {
  const auto folder = shared_data(std::string("models/") + GetParam());
  if (!folder) GTEST_SKIP() << "no shared test data: set PAGODA_SHARED_DATA";
  expect_goldens(*folder, *folder + "/golden.jsonl", float32_options());
}
INSTANTIATE_TEST_SUITE_P(Models, Shared,
                         ::testing::Values("tiny_opt", "tiny_gpt2", "tiny_llama", "tiny_mistral",
                                           "tiny_qwen2", "tiny_qwen3"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Stories, BothFormatsAgreeWithTransformers) {
  const auto folder = shared_data("models/stories260K");
  if (!folder) GTEST_SKIP() << "no shared test data: set PAGODA_SHARED_DATA";
  const std::string goldens = *folder + "/golden_greedy_sample.jsonl";
  for (const std::string& model : {*folder, *folder + "/stories260K.gguf"}) {
    SCOPED_TRACE(model);
    expect_goldens(model, goldens, float32_options());
  }
}

// PAGODA_FULL_GOLDENS=1 runs every line and window, which takes a minute; else the short ones.
bool full_goldens() { return std::getenv("PAGODA_FULL_GOLDENS") != nullptr; }

TEST(DefaultModel, GreedyAgreesWithTransformers) {
  const auto model = default_model_file();
  const auto goldens = shared_data("models/smollm2_135m_q4_1/golden_greedy.jsonl");
  if (!model || !goldens) GTEST_SKIP() << "no default model (PAGODA_MODEL) or no shared test data";
  RunnerOptions options = float32_options();
  options.threads = 2;
  const auto runner = open_runner(*model, options);
  ASSERT_NE(runner, nullptr);
  std::size_t done = 0;
  for (const boost::json::object& line : read_json_lines(*goldens)) {
    if (!full_goldens() && (done == 3 || line.at("prompt_ids").as_array().size() > 64)) continue;
    expect_golden(*runner, line);
    ++done;
  }
  EXPECT_GE(done, 3u);
}

}  // namespace
}  // namespace pagoda::testing
