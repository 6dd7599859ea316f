// Goal: every matrix of every fixture is a part of the decoder, and its module's name follows from the part.
#include "models/weights/weight_parts.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "models/read_config.h"
#include "models/test_layers.h"

namespace pagoda {
namespace {

namespace json = boost::json;

using testing::names_of;

TEST(WeightParts, BothWays) {
  const WeightNames llama = names_of("llama");
  const ModulePart down = {.part = &WeightNames::down, .layer = 3};
  EXPECT_EQ(module_of(llama, down), "model.layers.3.mlp.down_proj");
  EXPECT_EQ(part_of(llama, "model.layers.3.mlp.down_proj"), down);
  EXPECT_EQ(part_of(llama, "layers.3.mlp.down_proj"), down) << "saved without its head";
  EXPECT_EQ(part_of(llama, "model.language_model.layers.3.mlp.down_proj"), down) << "of a model that sees";
  EXPECT_EQ(part_of(llama, "language_model.model.layers.3.mlp.down_proj"), down);
  EXPECT_EQ(part_of(llama, "lm_head"), (ModulePart{.part = &WeightNames::head}));
  EXPECT_EQ(part_of(names_of("llama", ModelFormat::gguf), "blk.3.ffn_down"), down);
  EXPECT_EQ(module_of(names_of("llama", ModelFormat::gguf), down), "blk.3.ffn_down");

  const WeightNames mixtral = names_of("mixtral");
  const ModulePart expert = {.part = &ExpertNames::up, .layer = 2, .expert = 7};
  EXPECT_EQ(module_of(mixtral, expert), "model.layers.2.block_sparse_moe.experts.7.w3");
  EXPECT_EQ(part_of(mixtral, "model.layers.2.block_sparse_moe.experts.7.w3"), expert);
  EXPECT_EQ(part_of(mixtral, "model.layers.2.mlp.experts.7.up_proj"), expert) << "as newer files have it";
  EXPECT_EQ(part_of(mixtral, "model.layers.2.mlp.experts.gate_up_proj"),
            (ModulePart{.part = &ExpertNames::gate_up, .layer = 2}));
}

TEST(WeightParts, NoMatrixOfTheDecoder) {
  const WeightNames llama = names_of("llama");
  for (const std::string_view other :
       {"", "model", "model.layers.", "model.layers.x.mlp.up_proj", "model.layers.-1.mlp.up_proj",
        "model.layers.99999999999.mlp.up_proj", "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp",
        "model.layers.1.input_layernorm", "vision_tower.layers.1.mlp.up_proj", "xlm_head"})
    EXPECT_FALSE(part_of(llama, other)) << other;
  EXPECT_EQ(module_of(llama, {.part = &WeightNames::conv_in, .layer = 1}), "");
  EXPECT_EQ(module_of(llama, {.part = &WeightNames::project_in}), "");
}

// Tensors of two dimensions that are no matrices of the decoder: by a part of their names.
bool is_no_matrix(std::string_view name) {
  for (const std::string_view part :
       {"_norm.weight", "conv.weight", "conv1d.weight", "altup_projections", "altup_unembed_projections",
        "_proj_bias", "_proj_scales", "_correction_bias", ".A_log"})
    if (name.find(part) != name.npos) return true;
  return false;
}

TEST(WeightParts, OfEveryFixture) {
  int matrices = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/tests/fixtures/families")) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path().filename().string());
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const json::value fixture = json::parse(text.str());
    const auto config = read_config_json(json::serialize(fixture.at("config")));
    ASSERT_TRUE(config) << config.error().message();
    const WeightNames names = config->names(ModelFormat::hugging_face);
    const WeightNames gguf = config->names(ModelFormat::gguf);
    for (const json::value& tensor : fixture.at("tensors").as_array()) {
      const std::string name(tensor.at(0).as_string());
      if (tensor.at(1).as_array().size() < 2 || is_no_matrix(name)) continue;
      const std::string module = name.substr(0, name.size() - (name.ends_with(".weight")   ? 7
                                                               : name.ends_with("_blocks") ? 7
                                                                                           : 0));
      const auto part = part_of(names, module);
      EXPECT_TRUE(part) << name;
      if (!part) continue;
      ++matrices;
      const std::string again = module_of(names, *part);
      EXPECT_EQ(part_of(names, again), part) << module << " became " << again;
      const std::string in_gguf = module_of(gguf, *part);
      if (!in_gguf.empty()) EXPECT_EQ(module_of(gguf, part_of(gguf, in_gguf).value()), in_gguf) << module;
    }
  }
  EXPECT_GT(matrices, 3000);
}

}  // namespace
}  // namespace pagoda
