#include "hub/choose_files.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

using Names = std::vector<std::string>;

TEST(ChooseFiles, TagsAreWordsOfAName) {
  EXPECT_TRUE(has_tag("a-Q4_K_M.gguf", "q4_k_m"));
  EXPECT_TRUE(has_tag("Q8_0/a.gguf", "Q8_0"));
  EXPECT_TRUE(has_tag("model_q8_0.gguf", "Q8_0"));
  EXPECT_FALSE(has_tag("a-Q4_K_M.gguf", "Q4_K"));
  EXPECT_FALSE(has_tag("a-IQ4_K_M.gguf", "Q4_K_M"));
  EXPECT_FALSE(has_tag("a.gguf", ""));
}

TEST(ChooseFiles, NamesThatLeaveTheFolderAreRefused) {
  for (const char* bad : {"", "/a", "../a", "a/../b", "a//b", "a/", "./a", "a\\b", "a\nb"})
    EXPECT_FALSE(safe_file_name(bad)) << bad;
  EXPECT_TRUE(safe_file_name("a b/..c.json"));
  const auto chosen = choose_files({"a.gguf", "../../b.gguf"}, "");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code(), StatusCode::invalid_argument);
}

TEST(ChooseFiles, NoPicklesBesideSafetensors) {
  const Names all = {"config.json",     "model.safetensors", "pytorch_model.bin", "tokenizer.json",
                     "onnx/model.onnx", "original/x.json",   "README.md",         "a.Q8_0.gguf"};
  EXPECT_EQ(*choose_files(all, ""), (Names{"model.safetensors", "config.json", "tokenizer.json"}));
  EXPECT_EQ(*choose_files(all, "Q8_0"), (Names{"a.Q8_0.gguf"}));
  EXPECT_NE(choose_files({"config.json", "pytorch_model.bin"}, "").error().message().find("pickled weights"),
            std::string::npos);
}

TEST(ChooseFiles, MistralsOwnFormWhereThereIsNoOther) {
  const Names own = {"consolidated.safetensors", "params.json", "tekken.json"};
  EXPECT_EQ(*choose_files(own, ""), own);
  Names all = own;
  all.insert(all.end(), {"config.json", "model.safetensors"});
  EXPECT_EQ(*choose_files(all, ""),
            (Names{"model.safetensors", "params.json", "tekken.json", "config.json"}));
  EXPECT_FALSE(choose_files({"consolidated.safetensors", "tekken.json"}, ""));
}

TEST(ChooseFiles, WhatSeesIsLeftOutUnlessAskedFor) {
  const Names all = {"m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf", "m-mmproj-BF16.gguf"};
  EXPECT_EQ(*choose_files(all, ""), (Names{"m-Q4_K_M.gguf"}));
  EXPECT_EQ(*choose_files(all, "Q8_0"), (Names{"m-Q8_0.gguf"}));
  EXPECT_EQ(*choose_files(all, "mmproj-F16"), (Names{"mmproj-F16.gguf"}));
  EXPECT_EQ(*choose_files(all, "m-mmproj-BF16.gguf"), (Names{"m-mmproj-BF16.gguf"}));
  EXPECT_NE(choose_files(all, "mmproj").error().message().find("matches several files"), std::string::npos);
  EXPECT_FALSE(choose_files(all, "mmproj-Q4"));
}

TEST(ChooseFiles, WhatAQuantiserMeasuredIsNoModel) {
  EXPECT_EQ(*choose_files({"m-Q6_K.gguf", "m-imatrix.gguf"}, ""), (Names{"m-Q6_K.gguf"}));
  EXPECT_EQ(*choose_files({"m-imatrix-Q6_K.gguf", "imatrix.gguf"}, ""), (Names{"m-imatrix-Q6_K.gguf"}));
  EXPECT_EQ(*choose_files({"m-Q6_K.gguf", "m-imatrix.gguf"}, "m-imatrix.gguf"), (Names{"m-imatrix.gguf"}));
}

TEST(ChooseFiles, ChatTemplatesBesideTheDefaultOne) {
  const Names wanted = {"model.safetensors", "config.json", "chat_template.jinja",
                        "additional_chat_templates/tool_use.jinja"};
  Names all = wanted;
  for (const char* other :
       {"additional_chat_templates/x/y.jinja", "additional_chat_templates/notes.txt", "x/a.jinja"})
    all.emplace_back(other);
  EXPECT_EQ(*choose_files(all, ""), wanted);
}

TEST(ChooseFiles, ModulesOfSentenceTransformers) {
  const Names model = {"model.safetensors", "config.json", "modules.json"},
              modules = {"1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"};
  Names all = model, wanted = model;
  for (const char* other : {"2_Dense/pytorch_model.bin", "onnx/config.json", "openvino_1/config.json",
                            "1x/config.json", "1_Pooling/a/config.json"})
    all.emplace_back(other);
  all.insert(all.end(), modules.begin(), modules.end());
  wanted.insert(wanted.end(), modules.begin(), modules.end());
  EXPECT_EQ(*choose_files(all, ""), wanted);
  std::erase(all, "modules.json");
  EXPECT_EQ(*choose_files(all, ""), (Names{"model.safetensors", "config.json"}));
}

TEST(ChooseFiles, AllPartsOfASplitModel) {
  const Names parts = {"a-Q8_0-00001-of-00002.gguf", "a-Q8_0-00002-of-00002.gguf"};
  Names all = parts;
  all.push_back("a-Q4_K_M.gguf");
  all.push_back("mmproj-Q8_0.gguf");
  EXPECT_EQ(*choose_files(all, "Q8_0"), parts);
  EXPECT_EQ(*choose_files(all, ""), (Names{"a-Q4_K_M.gguf"}));
  EXPECT_EQ(choose_files({parts[1]}, "Q8_0").error().code(), StatusCode::invalid_argument);
}

TEST(ChooseFiles, WhatIsThereIsListed) {
  const auto chosen = choose_files({"a-Q8_0.gguf", "a-F16.gguf"}, "Q2_K");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().message(), "none with ':Q2_K'; available: a-F16.gguf, a-Q8_0.gguf");
}

TEST(TagOf, IsTheWordOfTheQuantisation) {
  EXPECT_EQ(tag_of("a/SmolLM2-135M-Instruct.Q4_1.gguf"), "Q4_1");
  EXPECT_EQ(tag_of("Q8_0/a-Q8_0-00001-of-00002.gguf"), "Q8_0");
  EXPECT_EQ(tag_of("m-q4_k_m.gguf"), "q4_k_m");
  EXPECT_EQ(tag_of("m-IQ3_XS.gguf"), "IQ3_XS");
  EXPECT_EQ(tag_of("Qwen3-8B-BF16.gguf"), "BF16");
  EXPECT_EQ(tag_of("qwen-model.gguf"), "qwen-model.gguf");
}

}  // namespace
}  // namespace pagoda
