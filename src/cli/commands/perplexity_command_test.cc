// Goal: pagoda perplexity gives the golden text's mean negative log-likelihood in the default type, in the
// lines that scripts read, and refuses what it cannot do by name.
#include "cli/commands/perplexity_command.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace pagoda {
namespace {

std::optional<std::string> shared_data(const std::string& name) {
  std::vector<std::string> roots = {PAGODA_SOURCE_DIR "/../shared/data",
                                    PAGODA_SOURCE_DIR "/../../shared/data"};
  if (const char* root = std::getenv("PAGODA_SHARED_DATA")) roots.insert(roots.begin(), root);
  for (const std::string& root : roots) {
    if (std::filesystem::exists(root + "/" + name)) return root + "/" + name;
  }
  return std::nullopt;
}

std::optional<std::string> default_model_file() {
  std::string path;
  if (const char* model = std::getenv("PAGODA_MODEL")) {
    path = model;
  } else if (const char* home = std::getenv("HOME")) {
    path = std::string(home) + "/.cache/pagoda/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  if (path.empty() || !std::filesystem::exists(path)) return std::nullopt;
  return path;
}

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// The number behind `label` at the start of a line.
double figure(const std::string& output, const std::string& label) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(label + " ")) return std::strtod(line.c_str() + label.size(), nullptr);
  }
  ADD_FAILURE() << "no line '" << label << "' in:\n" << output;
  return NAN;
}

TEST(PerplexityCommand, TheGoldenTextInTheDefaultType) {
  const auto model = default_model_file();
  const auto golden_path = shared_data("models/smollm2_135m_q4_1/golden_perplexity.json");
  const auto corpus = shared_data("workloads/alpaca.jsonl");
  if (!model || !golden_path || !corpus)
    GTEST_SKIP() << "no default model (PAGODA_MODEL) or no shared test data";
  std::ifstream golden_file(*golden_path);
  const std::string golden_text{std::istreambuf_iterator<char>(golden_file), {}};
  const boost::json::object golden = boost::json::parse(golden_text).as_object();

  std::string text;
  std::ifstream lines(*corpus);
  std::string line;
  for (int i = 0; i < 79 && std::getline(lines, line); ++i) {
    if (i > 0) text += "\n\n";
    text += boost::json::parse(line).at("output").as_string();
  }
  ASSERT_EQ(static_cast<std::int64_t>(text.size()), golden.at("text_bytes").to_number<std::int64_t>());

  PerplexityArgs args;
  args.engine.model = *model;
  args.file = write_file("pagoda_perplexity.txt", text);
  args.max_tokens = 4096;
  double expected = 0;
  const boost::json::array& windows = golden.at("window_mean_nll").as_array();
  for (const auto& window : windows) expected += window.to_number<double>() / 8;
  ASSERT_EQ(windows.size(), 8u);
  struct Case {
    const char *dtype, *kv_cache_dtype;
    double tolerance;
  };
  const bool all =
      std::getenv("PAGODA_FULL_GOLDENS") != nullptr;  // the tier `families` has keys and values of 8 bits
  // Roundings move each token's logit either way: together two of them may differ by more than each does.
  for (const Case& c :
       {Case{"auto", "auto", 0.006}, Case{"auto", "int8", 0.008}, Case{"bfloat16", "int8", 0.003}}) {
    if (!all && std::string_view(c.kv_cache_dtype) != "auto") continue;
    SCOPED_TRACE(::testing::Message() << c.dtype << " " << c.kv_cache_dtype);
    args.engine.dtype = c.dtype;
    args.engine.kv_cache_dtype = c.kv_cache_dtype;
    ::testing::internal::CaptureStdout();
    const Status status = run_perplexity(args);
    const std::string output = ::testing::internal::GetCapturedStdout();
    ASSERT_TRUE(status.ok()) << status.message();
    const double nll = figure(output, "mean negative log-likelihood");
    EXPECT_NEAR(nll, expected, c.tolerance);
    EXPECT_NEAR(figure(output, "perplexity"), std::exp(nll), 1e-3);
  }
}

TEST(PerplexityCommand, WhatItCannotDoIsRefusedByName) {
  const auto message = [](const PerplexityArgs& args) {
    const Status status = run_perplexity(args);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  PerplexityArgs args;
  args.engine.model = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/llama";
  args.file = "/nowhere/text";
  EXPECT_NE(message(args).find("/nowhere/text"), std::string::npos);
  args.file = write_file("pagoda_perplexity_short.txt", "a");
  args.context = 1;
  EXPECT_NE(message(args).find("--context"), std::string::npos);
  args.context = 512;
  message(args);  // the fixture has no tokenizer
  args.engine.model = "/nowhere/model";
  EXPECT_NE(message(args).find("/nowhere/model"), std::string::npos);
}

}  // namespace
}  // namespace pagoda
