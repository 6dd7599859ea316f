// Goal: what an adapter's files say is read as PEFT and llama.cpp mean it, and what is more than a sum that
// is added to matrices is refused by name.
#include "loader/adapter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/strings.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

using testing::GgufBuilder;
using testing::ScratchFolder;

// Each of these shapes, of float32 zeros, one after the other.
std::string tensors(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& list) {
  std::string header = "{";
  std::int64_t at = 0;
  for (const auto& [name, shape] : list) {
    std::int64_t bytes = 4;
    std::string extents;
    for (const std::int64_t extent : shape) {
      bytes *= extent;
      extents += concat(extents.empty() ? "" : ",", extent);
    }
    header += concat(header.size() > 1 ? "," : "", "\"", name, R"(":{"dtype":"F32","shape":[)", extents,
                     R"(],"data_offsets":[)", at, ",", at + bytes, "]}");
    at += bytes;
  }
  return testing::safetensors(header + "}", std::string(static_cast<std::size_t>(at), '\0'));
}

Result<Adapter> peft(const std::string& config,
                     const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& list,
                     float scale = 1) {
  const ScratchFolder folder;
  folder.write("adapter_config.json", config);
  folder.write("adapter_model.safetensors", tensors(list));
  return Adapter::open(folder.path(), scale, {});
}

std::vector<std::pair<std::string, std::vector<std::int64_t>>> factors(const std::string& module) {
  return {{module + ".lora_A.weight", {4, 6}}, {module + ".lora_B.weight", {8, 4}}};
}

std::string refusal(const Result<Adapter>& adapter) { return adapter ? "opened" : adapter.error().message(); }

TEST(AdapterFiles, AreScaledAsTheConfigSays) {
  const auto scale_of = [](const std::string& more,
                           const std::string& module = "model.layers.0.self_attn.q_proj") {
    const auto adapter = peft(concat(R"({"peft_type":"LORA","r":9,"lora_alpha":8)", more, "}"),
                              factors("base_model.model." + module), 0.5f);
    EXPECT_TRUE(adapter) << refusal(adapter);
    return adapter ? adapter->changes().at(module + ".weight").scale : 0;
  };
  EXPECT_EQ(scale_of(""), 1) << "the rank is the file's";
  EXPECT_EQ(scale_of(R"(,"use_rslora":true)"), 2);
  EXPECT_EQ(scale_of(R"(,"alpha_pattern":{"q_proj":16})"), 2);
  EXPECT_EQ(scale_of(R"(,"alpha_pattern":{"layers\\.0\\.self_attn\\.q_proj":16})"), 2);
  EXPECT_EQ(scale_of(R"(,"alpha_pattern":{"proj":16})"), 1) << "only whole parts of a name";
  EXPECT_EQ(scale_of(R"(,"alpha_pattern":{"^model.layers.0.self_attn.q_proj":16,"q_proj":4})"), 2)
      << "the first";
  EXPECT_EQ(scale_of(R"(,"alpha_pattern":{"^self_attn.q_proj":16})"), 1);
  EXPECT_NE(refusal(peft(R"({"peft_type":"LORA","alpha_pattern":{".*q_proj":4}})", factors("q_proj")))
                .find("'.*q_proj'"),
            std::string::npos);
}

TEST(AdapterFiles, MayNameTheAdapterInTheirTensors) {
  const auto adapter =
      peft(R"({"peft_type":"LORA"})", {{"base_model.model.a.lora_A.default.weight", {4, 6}},
                                       {"base_model.model.a.lora_B.my_run.weight", {8, 4}},
                                       {"base_model.model.a.lora_magnitude_vector.default.weight", {8}},
                                       {"base_model.model.b.modules_to_save.default.weight", {3}},
                                       {"base_model.model.b.original_module.weight", {3}},
                                       {"c.bias", {3}}});
  ASSERT_TRUE(adapter) << refusal(adapter);
  ASSERT_EQ(adapter->changes().size(), 3u);
  EXPECT_TRUE(adapter->changes().at("a.weight").left && adapter->changes().at("a.weight").row_lengths);
  EXPECT_TRUE(adapter->changes().at("b.weight").whole);
  EXPECT_TRUE(adapter->changes().at("c.bias").whole);
}

TEST(AdapterFiles, OtherKindsAreRefusedByName) {
  const auto with = [](const std::string& more) {
    return refusal(peft(concat("{", more, "}"), factors("a")));
  };
  EXPECT_EQ(with(R"("peft_type":"LORA")"), "opened");
  const std::string lora = R"("peft_type":"LORA",)";
  for (const std::string start : {"true", "false", "null", "\"gaussian\"", "\"orthogonal\"", "\"eva\""})
    EXPECT_EQ(with(concat(lora, R"("init_lora_weights":)", start)), "opened");
  for (const std::string start : {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga"})
    EXPECT_NE(with(concat(lora, R"("init_lora_weights":")", start, "\"")).find(start), std::string::npos);
  for (const std::string key : {"use_qalora", "layer_replication", "alora_invocation_tokens",
                                "target_parameters", "trainable_token_indices", "megatron_config"}) {
    EXPECT_NE(with(concat(lora, "\"", key, R"(":[1])")).find(concat("'", key, "'")), std::string::npos);
    for (const std::string unset : {"null", "false", "[]", "{}"})
      EXPECT_EQ(with(concat(lora, "\"", key, "\":", unset)), "opened");
  }
  for (const std::string type : {"IA3", "ADALORA", "PREFIX_TUNING"})
    EXPECT_NE(with(concat(R"("peft_type":")", type, "\"")).find(type), std::string::npos);
  EXPECT_NE(with(R"("rank":8)").find("is not PEFT's"), std::string::npos);
}

// The tensors say what is adapted; the config says how they came to be.
TEST(AdapterFiles, TakeWhatIsThereWhateverWasAimedAt) {
  const auto module = factors("base_model.model.model.layers.1.self_attn.q_proj");
  for (const std::string aim :
       {R"("target_modules":"all-linear")", R"("target_modules":".*\\.(q|k)_proj")",
        R"("target_modules":["q_proj"],"layers_to_transform":[1],"layers_pattern":"layers")",
        R"("target_modules":["q_proj","v_proj"],"exclude_modules":["v_proj"])",
        R"("target_modules":["q_proj"],"exclude_modules":".*v_proj","rank_pattern":{".*":4},"r":64)"}) {
    const auto adapter = peft(concat(R"({"peft_type":"LORA","lora_alpha":4,)", aim, "}"), module);
    ASSERT_TRUE(adapter) << aim << refusal(adapter);
    EXPECT_EQ(adapter->changes().size(), 1u);
    EXPECT_EQ(adapter->changes().begin()->second.scale, 1);
  }
  EXPECT_NE(refusal(peft(R"({"peft_type":"LORA","use_dora":true})", module)).find("'use_dora'"),
            std::string::npos)
      << "without lengths it would be taken for plain LoRA";
}

// PEFT saves heads and embeddings beside their factors.
TEST(AdapterFiles, TellACopyOfTheModelsFromAReplacement) {
  auto list = factors("base_model.model.lm_head");
  list.push_back({"base_model.model.lm_head.base_layer.weight", {8, 6}});
  const auto copied = peft(R"({"peft_type":"LORA"})", list);
  ASSERT_TRUE(copied) << refusal(copied);
  const TensorChange& head = copied->changes().at("lm_head.weight");
  EXPECT_TRUE(head.whole && head.whole_is_models && head.left && head.right);
  list.back().first = "base_model.model.lm_head.modules_to_save.default.weight";
  EXPECT_FALSE(peft(R"({"peft_type":"LORA"})", list)->changes().at("lm_head.weight").whole_is_models);
}

TEST(AdapterFiles, PartsThatDoNotFitAreRefused) {
  const auto with = [](std::vector<std::pair<std::string, std::vector<std::int64_t>>> list) {
    return refusal(peft(R"({"peft_type":"LORA"})", list));
  };
  EXPECT_NE(with({{"a.lora_A.weight", {4, 6}}}).find("one of two factors"), std::string::npos);
  EXPECT_NE(with({{"a.lora_A.weight", {4, 6}}, {"a.lora_B.weight", {8, 3}}}).find("do not fit"),
            std::string::npos);
  EXPECT_NE(with({{"a.lora_A.weight", {4, 6, 3, 3}}, {"a.lora_B.weight", {8, 4}}}).find("only matrices"),
            std::string::npos);
  EXPECT_NE(with({{"a.lora_magnitude_vector", {8}}}).find("no factors"), std::string::npos);
  EXPECT_NE(with({{"a.lora_B.bias", {8}}}).find("no product"), std::string::npos);
  EXPECT_NE(with({{"a.token_adapter.trainable_tokens_delta", {1, 8}}}).find("trainable_tokens_delta"),
            std::string::npos);
  EXPECT_NE(with({}).find("has no tensors"), std::string::npos);
}

TEST(AdapterFiles, OfLlamaCppAreScaledByAlphaAndRank) {
  const auto open = [](const std::string& type, float alpha, const std::string& name) {
    const ScratchFolder folder;
    GgufBuilder file;
    file.string("general.type", "adapter")
        .string("adapter.type", type)
        .string("general.architecture", "llama");
    file.f32("adapter.lora.alpha", alpha);
    file.tensor(name + ".lora_a", {6, 2}, 0, std::string(48, '\0'))
        .tensor(name + ".lora_b", {2, 8}, 0, std::string(64, '\0'));
    return Adapter::open(folder.write("a.gguf", file.build()), 1, {});
  };
  const auto adapter = open("lora", 6, "blk.0.attn_q.weight");
  ASSERT_TRUE(adapter) << refusal(adapter);
  EXPECT_EQ(adapter->architecture(), "llama");
  EXPECT_EQ(adapter->changes().at("blk.0.attn_q.weight").scale, 3);
  EXPECT_EQ(open("lora", 0, "blk.0.attn_q.weight")->changes().at("blk.0.attn_q.weight").scale, 1)
      << "no alpha";
  EXPECT_NE(refusal(open("control", 6, "blk.0.attn_q.weight")).find("'control'"), std::string::npos);
}

// No damage to an adapter's files does more than a clean error.
TEST(AdapterFiles, DamageIsAnError) {
  const std::string fixtures = PAGODA_SOURCE_DIR "/tests/fixtures/adapters/";
  std::mt19937_64 rng(7);
  int opened = 0;
  for (const std::string name : {"plain", "dora", "lora_bias", "tied_embedding", "with_adapter_name"})
    for (int turn = 0; turn < 150; ++turn) {
      const ScratchFolder folder;
      for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
        std::string bytes = testing::read_binary(concat(fixtures, name, "/", file));
        for (std::uint64_t count = rng() % 3; count > 0; --count)
          bytes[rng() % std::min<std::size_t>(bytes.size(), 2000)] = static_cast<char>(rng());
        folder.write(file, bytes);
      }
      opened += Adapter::open(folder.path(), 1, {}).has_value();
    }
  EXPECT_GT(opened, 50);
}

TEST(AdapterFiles, NamesOfTheSameTensorAreTheSame) {
  for (const std::string_view before :
       {"", "model.", "base_model.model.model.", "model.language_model.", "language_model.model."})
    EXPECT_EQ(plain_tensor_name(concat(before, "layers.0.mlp.up_proj.weight")),
              "layers.0.mlp.up_proj.weight");
  EXPECT_EQ(plain_tensor_name("model.visual.blocks.0.weight"), "visual.blocks.0.weight");
}

}  // namespace
}  // namespace pagoda
