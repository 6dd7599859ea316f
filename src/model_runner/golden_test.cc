// Goal: every architecture computes what an independent implementation computes on the same weights, in
// float32 to 1e-3 of a log-probability. Committed fixtures come from numpy
// (tests/fixtures/make_tiny_models.py), shared ones from transformers; the default model is used where it has
// been fetched.
#include <gtest/gtest.h>

#include "model_runner/expect_golden.h"

namespace pagoda::testing {
namespace {

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

RunnerOptions golden_options(Backend backend = Backend::cpu) {
  RunnerOptions options;
  options.dtype = "float32";
  options.num_blocks = 200;
  options.max_num_batched_tokens = 2048;
  options.backend = backend;
  return options;
}

void expect_transformers_goldens(const std::string& model, const std::string& goldens,
                                 const RunnerOptions& options) {
  const auto runner = open_runner(model, options);
  ASSERT_NE(runner, nullptr);
  const auto lines = read_json_lines(goldens);
  ASSERT_FALSE(lines.empty());
  for (const boost::json::object& line : lines) expect_golden(*runner, runner->kv_layout().block_size, line);
}

class Fixture : public ::testing::TestWithParam<const char*> {};

TEST_P(Fixture, AgreesWithNumpy) {
  const std::string folder = fixture(GetParam());
  int formats = 0;  // a folder may hold the same model in both
  for (const std::string file : {"/config.json", "/model.gguf"}) {
    if (!std::filesystem::exists(folder + file)) continue;
    ++formats;
    for (const Backend backend : {Backend::reference, Backend::cpu}) {
      SCOPED_TRACE(file + (backend == Backend::cpu ? " cpu" : " reference"));
      expect_transformers_goldens(file == "/config.json" ? folder : folder + file, folder + "/golden.jsonl",
                                  golden_options(backend));
    }
  }
  EXPECT_GT(formats, 0);
}
INSTANTIATE_TEST_SUITE_P(Models, Fixture,
                         ::testing::Values("opt", "opt_post_norm", "gpt2", "gpt2_no_prefix", "llama",
                                           "mistral", "qwen2", "qwen3", "gemma3", "gemma3_gguf", "granite",
                                           "olmo2", "phi3", "smollm3", "llama_gguf_f16",
                                           "llama_gguf_quantized", "qwen2_moe", "qwen3_moe", "mixtral",
                                           "mixtral_gguf_split"),
                         [](const auto& info) { return std::string(info.param); });

class Shared : public ::testing::TestWithParam<const char*> {};

TEST_P(Shared, AgreesWithTransformers) {
  const auto folder = shared_data(std::string("models/") + GetParam());
  if (!folder) GTEST_SKIP() << "no shared test data: set PAGODA_SHARED_DATA";
  expect_transformers_goldens(*folder, *folder + "/golden.jsonl", golden_options());
}
INSTANTIATE_TEST_SUITE_P(Models, Shared,
                         ::testing::Values("tiny_opt", "tiny_gpt2", "tiny_llama", "tiny_mistral",
                                           "tiny_qwen2", "tiny_qwen3", "tiny_gemma2", "tiny_gemma3",
                                           "tiny_granite", "tiny_olmo2", "tiny_phi3", "tiny_qwen2_moe",
                                           "tiny_qwen3_moe", "tiny_mixtral", "tiny_gpt_oss",
                                           "tiny_deepseek_v3"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Stories, BothFormatsAgreeWithTransformers) {
  const auto folder = shared_data("models/stories260K");
  if (!folder) GTEST_SKIP() << "no shared test data: set PAGODA_SHARED_DATA";
  const std::string goldens = *folder + "/golden_greedy_sample.jsonl";
  for (const std::string& model : {*folder, *folder + "/stories260K.gguf"}) {
    SCOPED_TRACE(model);
    expect_transformers_goldens(model, goldens, golden_options());
  }
}

// PAGODA_FULL_GOLDENS=1 runs every line and window, which takes a minute; else the short ones.
bool full_goldens() { return std::getenv("PAGODA_FULL_GOLDENS") != nullptr; }

// The lines that `takes` chooses, or with PAGODA_FULL_GOLDENS all of them; how many that were.
template <class Takes>
std::size_t expect_some_goldens(const std::string& model, const std::string& goldens, const Takes& takes) {
  RunnerOptions options = golden_options();
  options.threads = 2;
  const auto runner = open_runner(model, options);
  if (runner == nullptr) return 0;
  std::size_t done = 0;
  for (const boost::json::object& line : read_json_lines(goldens)) {
    if (!full_goldens() && !takes(line, done)) continue;
    expect_golden(*runner, runner->kv_layout().block_size, line);
    ++done;
  }
  return done;
}

TEST(DefaultModel, GreedyAgreesWithTransformers) {
  const auto model = default_model_file();
  const auto goldens = shared_data("models/smollm2_135m_q4_1/golden_greedy.jsonl");
  if (!model || !goldens) GTEST_SKIP() << "no default model (PAGODA_MODEL) or no shared test data";
  EXPECT_GE(expect_some_goldens(*model, *goldens,
                                [](const boost::json::object& line, std::size_t done) {
                                  return done < 3 && line.at("prompt_ids").as_array().size() <= 64;
                                }),
            3u);
}

// Among the lines is one longer than the window of 512 tokens.
TEST(Gemma3, GreedyAgreesWithTransformers) {
  const auto model = fetched_model("gemma-3-270m-q4_k_m.gguf");
  const auto goldens = shared_data("conformance/gemma3_270m_greedy_golden.jsonl");
  if (!model || !goldens)
    GTEST_SKIP() << "no gemma-3-270m (script/model gemma-3-270m) or no shared test data";
  EXPECT_GE(expect_some_goldens(*model, *goldens,
                                [](const boost::json::object& line, std::size_t done) {
                                  return done < 2 || line.at("name").as_string() == "lighthouse_code";
                                }),
            3u);
}

}  // namespace
}  // namespace pagoda::testing
