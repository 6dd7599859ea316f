// Goal: config.json and generation_config.json as exporters and editors leave them.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "models/read_config.h"
#include "models/test_layers.h"

namespace pagoda {
namespace {

// As people's editors leave the file, and with an error that names it.
TEST(ConfigJson, GenerationConfigAsItComes) {
  const std::string config =
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 50})";
  const auto ends = [&](std::string_view generation) {
    const Result<ModelInfo> made = read_config_json(config, generation);
    return made ? made->eos_token_ids : std::vector<std::int32_t>{};
  };
  EXPECT_EQ(ends("\xEF\xBB\xBF{\"eos_token_id\": [7, 8]}"), (std::vector<std::int32_t>{2, 7, 8}));
  EXPECT_EQ(ends("{\"eos_token_id\": [7, 8,],}"), (std::vector<std::int32_t>{2, 7, 8}));
  const Result<ModelInfo> bad = read_config_json(config, R"({"eos_token_id": "x"})");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message().find("generation_config.json: 'eos_token_id'"), std::string::npos);
  const Result<ModelInfo> broken = read_config_json(config, "{");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message().find("generation_config.json"), std::string::npos);
}

TEST(ConfigJson, AnEndOutsideTheVocabularyIsTold) {
  const auto made =
      read_config_json(R"({"model_type": "llama", "vocab_size": 50, "eos_token_id": [7, 50, -3]})");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->eos_token_ids, (std::vector<std::int32_t>{7}));
  EXPECT_EQ(describe_unknown_ends(*made),
            "eos_token_id is outside the vocabulary of 50 tokens and ends no answer: 50, -3");
  const auto inside = read_config_json(R"({"model_type": "llama", "vocab_size": 50, "eos_token_id": 7})");
  EXPECT_EQ(describe_unknown_ends(*inside), "");
}

TEST(ConfigJson, AConvolutionHasTheActivationToo) {
  for (const std::string_view family :
       {"qwen3_5_text", "qwen3_next", "falcon_h1", "granitemoehybrid", "mamba", "falcon_mamba", "jamba"}) {
    const Result<ModelInfo> made = read_config_json(
        concat(R"({"model_type": ")", family, R"(", "hidden_act": "gelu", "num_hidden_layers": 4})"));
    ASSERT_FALSE(made) << family;
    EXPECT_NE(made.error().message().find("'hidden_act' = \"gelu\" is not supported"), std::string::npos)
        << made.error().message();
  }
}

// A window that no layer has still says that layers without one do not rotate.
TEST(ConfigJson, NoLayerOfExaone4Rotates) {
  const auto rotating = [](std::string_view window) {
    const Result<ModelInfo> made = read_config_json(
        concat(R"({"model_type": "exaone4", "num_hidden_layers": 2, "layer_types": ["full_attention",)",
               R"("full_attention"], "sliding_window": )", window, "}"));
    return made ? testing::rotating(*made) : std::vector<bool>{};
  };
  EXPECT_EQ(rotating("20"), (std::vector<bool>{false, false}));
  EXPECT_EQ(rotating("null"), (std::vector<bool>{true, true}));
}

TEST(ConfigJson, QuantisedByNoMethod) {
  const auto read = [](std::string_view method) {
    return read_config_json(
        concat(R"({"model_type": "llama", "quantization_config": {"quant_method": )", method, "}}"));
  };
  EXPECT_TRUE(read("\"none\""));
  EXPECT_TRUE(read("\"awq\""));
  EXPECT_FALSE(read("\"aqlm\""));
}

}  // namespace
}  // namespace pagoda
