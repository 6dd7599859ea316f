// Goal: values of generation_config.json that no request could use are named at start and left out.
#include "cli/assembly/sampling_defaults.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pagoda {
namespace {

namespace fs = std::filesystem;

class SamplingDefaultsOf : public ::testing::Test {
 protected:
  SamplingDefaultsOf() : folder_(fs::path(::testing::TempDir()) / "pagoda_sampling_defaults_test") {
    fs::remove_all(folder_);
    fs::copy(fs::path(PAGODA_SOURCE_DIR) / "tests/fixtures/tiny_models/llama", folder_);
  }
  ~SamplingDefaultsOf() override { fs::remove_all(folder_); }

  // The defaults of this generation_config.json; the log goes to log_.
  SamplingDefaults with(const std::string& text, const std::string& overrides = "") {
    std::ofstream(folder_ / "generation_config.json") << text;
    ::testing::internal::CaptureStderr();
    const auto source = ModelSource::open(folder_.string());
    EXPECT_TRUE(source) << source.error().message();
    const auto defaults = sampling_defaults(**source, overrides);
    log_ = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(defaults) << defaults.error().message();
    return *defaults;
  }

  fs::path folder_;
  std::string log_;
};

TEST_F(SamplingDefaultsOf, UsableValuesAreTaken) {
  const SamplingDefaults defaults = with(
      "\xEF\xBB\xBF{\"temperature\": 0.5, \"top_p\": 1, \"top_k\": 20, \"min_p\": 0, \"repetition_penalty\": "
      "1.5,}");
  EXPECT_EQ(defaults.temperature, 0.5f);
  EXPECT_EQ(defaults.top_p, 1.0f);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.min_p, 0.0f);
  EXPECT_EQ(defaults.repetition_penalty, 1.5f);
  EXPECT_EQ(log_, "");
}

TEST_F(SamplingDefaultsOf, FieldsWithoutEffectAreNamedUnlessTheyAreOff) {
  with(R"({"suppress_tokens": [5], "no_repeat_ngram_size": 3, "num_beams": 1, "typical_p": 1, "min_length": 0,
           "forced_bos_token_id": null, "bad_words_ids": []})");
  EXPECT_NE(log_.find("generation_config.json: without effect here: suppress_tokens, no_repeat_ngram_size"),
            std::string::npos)
      << log_;
  with(R"({"num_beams": 1, "typical_p": 1.0, "max_length": 20, "bad_words_ids": []})");
  EXPECT_EQ(log_, "");
}

TEST_F(SamplingDefaultsOf, OthersAreNamedAndLeftOut) {
  const std::pair<const char*, const char*> kBad[] = {{"temperature", "-1"},
                                                      {"temperature", "\"hot\""},
                                                      {"top_p", "0"},
                                                      {"top_p", "1.5"},
                                                      {"top_k", "-2"},
                                                      {"top_k", "2.5"},
                                                      {"top_k", "1e300"},
                                                      {"min_p", "2"},
                                                      {"min_p", "NaN"},
                                                      {"repetition_penalty", "0"},
                                                      {"repetition_penalty", "true"}};
  for (const auto& [name, value] : kBad) {
    SCOPED_TRACE(std::string(name) + " " + value);
    const SamplingDefaults defaults = with("{\"" + std::string(name) + "\": " + value + "}");
    EXPECT_FALSE(defaults.temperature || defaults.top_p || defaults.top_k || defaults.min_p ||
                 defaults.repetition_penalty);
    EXPECT_NE(log_.find("generation_config.json: '" + std::string(name) + "'"), std::string::npos) << log_;
    EXPECT_NE(log_.find("it is ignored"), std::string::npos) << log_;
  }
}

TEST_F(SamplingDefaultsOf, NumbersAreToldAsTheyAreWritten) {
  with(R"({"top_p": 1.5})");
  EXPECT_NE(log_.find("'top_p' = 1.5 is above 1"), std::string::npos) << log_;
}

TEST_F(SamplingDefaultsOf, WhatIsGivenInsteadIsRefused) {
  EXPECT_EQ(with(R"({"temperature": 0.5})", R"({"temperature": 0.7, "top_p": null})").temperature, 0.7f);
  EXPECT_FALSE(with(R"({"temperature": 0.5})", R"({"temperature": null})").temperature);
  const auto source = ModelSource::open(folder_.string());
  for (const char* bad : {"{", "[]", R"({"top_p": 2})", R"({"temperature": "x"})", R"({"other": 1})"}) {
    const auto defaults = sampling_defaults(**source, bad);
    ASSERT_FALSE(defaults) << bad;
    EXPECT_EQ(defaults.error().code(), StatusCode::invalid_argument);
    EXPECT_NE(defaults.error().message().find("--override-generation-config"), std::string::npos);
  }
}

}  // namespace
}  // namespace pagoda
