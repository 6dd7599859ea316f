#include "models/describe.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "loader/test_files.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using testing::GgufBuilder;
using testing::loader_fixture;
using testing::read_binary;
using testing::ScratchFolder;

json::value json_of(const std::string& path) {
  const Result<Description> description = describe(path);
  if (!description) {
    ADD_FAILURE() << description.error().message();
    return json::object{};
  }
  EXPECT_FALSE(describe_table(*description).empty());
  const std::string text = describe_json(*description);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  return json::parse(text);
}

void expect_undescribed(const std::string& path, std::string_view why) {
  const Result<Description> description = describe(path);
  ASSERT_FALSE(description) << path;
  EXPECT_NE(description.error().message().find(why), std::string::npos) << description.error().message();
  EXPECT_EQ(description.error().message().find('\n'), std::string::npos);
}

TEST(Describe, Gguf) {
  const json::value out = json_of(loader_fixture("all_types.gguf"));
  EXPECT_EQ(out.at("format"), "gguf");
  EXPECT_EQ(out.at("version"), 3);
  EXPECT_EQ(out.at("supported"), true);
  EXPECT_EQ(out.at("config").at("num_kv_heads"), 2);
  EXPECT_EQ(out.at("parameters"), 28 * 3 * 512);
  EXPECT_EQ(out.at("num_tensors"), 28);
  EXPECT_EQ(out.at("bytes_by_type").at("Q4_1"), 3 * 16 * 20);
  EXPECT_EQ(out.at("metadata").at("tokenizer.ggml.tokens").at("count"), 5);
  EXPECT_EQ(out.at("tensors").as_array().front().at("shape"), (json::array{3, 512}));
}

// One row a token and layer, for all heads. What it takes of memory: cli/commands/inspect_command_test.cc.
TEST(Describe, LatentAttention) {
  const ScratchFolder scratch;
  scratch.write("config.json", R"({"model_type":"deepseek_v2","hidden_size":2048,"num_hidden_layers":27,)"
                               R"("num_attention_heads":16,"q_lora_rank":null})");
  const json::value out = json_of(scratch.path());
  EXPECT_EQ(out.at("config").at("latent_row"), 576);
}

TEST(Describe, WhatCannotBeRun) {
  const json::value vocabulary = json_of(loader_fixture("vocab_only.gguf"));
  EXPECT_EQ(vocabulary.at("supported"), false);
  EXPECT_EQ(vocabulary.at("architecture"), "falcon");

  const ScratchFolder scratch;
  const std::string other = scratch.write("other.gguf", GgufBuilder()
                                                            .string("general.architecture", "x\xFF\n")
                                                            .tensor("t", {256}, 10, std::string(84, 'x'))
                                                            .build());
  const json::value out = json_of(other);
  EXPECT_EQ(out.at("supported"), false);
  EXPECT_EQ(out.at("architecture"), "x\uFFFD\n");
  EXPECT_EQ(out.at("tensors").as_array().front().at("dtype"), "Q2_K");
}

TEST(Describe, FolderAndItsParts) {
  const json::value folder = json_of(loader_fixture("sharded"));
  EXPECT_EQ(folder.at("format"), "hugging_face");
  EXPECT_EQ(folder.at("supported"), true);
  EXPECT_EQ(folder.at("num_tensors"), 3) << "the mask is listed too";
  EXPECT_EQ(json_of(loader_fixture("sharded/config.json")).at("config").at("hidden_size"), 8);
  EXPECT_EQ(json_of(loader_fixture("sharded/model-00001-of-00002.safetensors")).at("weight_bytes"),
            16 * 8 * 4);
  EXPECT_EQ(json_of(loader_fixture("sharded/model.safetensors.index.json")).at("format"),
            "safetensors.index.json");

  const ScratchFolder scratch;
  const std::string tokenizer = scratch.write(
      "tokenizer.json", R"({"added_tokens":[],"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  EXPECT_EQ(json_of(tokenizer).at("metadata").at("model.vocab"), 2);
  scratch.write("config.json", R"({"architectures":["MixtralForCausalLM"]})");
  const json::value bare = json_of(scratch.path());
  EXPECT_EQ(bare.at("supported"), false);
  EXPECT_EQ(bare.at("architecture"), "MixtralForCausalLM");
}

TEST(Describe, RefusesMalformedFiles) {
  const ScratchFolder scratch;
  expect_undescribed(scratch.path() + "/absent.gguf", "there is no model");
  expect_undescribed(scratch.path(), "holds no model");
  expect_undescribed(scratch.write("a.gguf", "GGU"), "not a GGUF file");
  expect_undescribed(scratch.write("b.gguf", read_binary(loader_fixture("all_types.gguf")).substr(0, 5000)),
                     "past the end");
  expect_undescribed(scratch.write("c.safetensors", "x"), "too short");
  expect_undescribed(scratch.write("tokenizer.json", "{"), "not well-formed JSON");
  expect_undescribed(scratch.write("tokenizer.json", "[]"), "not a JSON object");
  expect_undescribed(scratch.write("tokenizer.json", "{}"), "has no 'model' object");
  expect_undescribed(scratch.write("tokenizer.json", R"({"model":{}})"), "'model.vocab'");
  expect_undescribed(scratch.write("tokenizer.json", std::string(1'000'000, '[')), "not well-formed JSON");
  expect_undescribed(scratch.write("config.json", R"({"model_type":"llama","hidden_size":[]})"),
                     "'hidden_size'");
  expect_undescribed(
      scratch.write(
          "headless.gguf",
          GgufBuilder().string("general.architecture", "llama").tensor("t", {1}, 0, "xxxx").build()),
      "is missing");
}

}  // namespace
}  // namespace pagoda
