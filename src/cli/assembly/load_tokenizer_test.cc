// Goal: every form of tokenizer on disk is found and read, and GGUF vocabularies give llama.cpp's goldens.
#include "cli/assembly/load_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/commands/tokenize_command.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
using testing::GgufBuilder;

const std::string kTokenizerFixtures = PAGODA_SOURCE_DIR "/tests/fixtures/tokenizers/";

std::string shared_data() {
  if (const char* path = std::getenv("PAGODA_SHARED_DATA")) return path;
  for (const char* relative : {"/../shared/data", "/../../shared/data"})
    if (fs::exists(std::string(PAGODA_SOURCE_DIR) + relative))
      return std::string(PAGODA_SOURCE_DIR) + relative;
  return {};
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(LoadTokenizer, GgufVocabularies) {
  if (shared_data().empty()) GTEST_SKIP() << "shared data is not there";
  std::size_t checked = 0;
  for (const char* name :
       {"gpt-2", "llama-spm", "falcon", "starcoder", "phi-3", "deepseek-coder", "mpt", "bert-bge"}) {
    SCOPED_TRACE(name);
    const std::string path = shared_data() + "/tokenizers/llama.cpp-vocabs/ggml-vocab-" + name + ".gguf";
    const auto tokenizer = load_tokenizer(path);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    const std::string texts = read(path + ".inp");
    std::ifstream outputs(path + ".out");
    const std::string kMarker = "\n__ggml_vocab_test__\n";
    for (std::size_t at = 0; at <= texts.size(); ++checked) {
      const std::size_t end = std::min(texts.find(kMarker, at), texts.size());
      std::string line;
      std::getline(outputs, line);
      std::istringstream numbers(line);
      std::vector<TokenId> wanted;
      for (TokenId id; numbers >> id;) wanted.push_back(id);
      const auto ids = (*tokenizer)->encode(std::string_view(texts).substr(at, end - at));
      ASSERT_TRUE(ids);
      EXPECT_EQ(*ids, wanted) << texts.substr(at, end - at);
      at = end + kMarker.size();
    }
  }
  EXPECT_EQ(checked, 8u * 47u);
}

TEST(LoadTokenizer, WhatEndsATurnIsAControlTokenWhateverTheFileSays) {
  const std::string bytes = GgufBuilder()
                                .string("tokenizer.ggml.model", "gpt2")
                                .string("tokenizer.ggml.pre", "gpt-2")
                                .strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>", "<|x|>"})
                                .strings("tokenizer.ggml.merges", {"a b"})
                                .array<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 1, 4})
                                .build();
  const auto file = GgufFile::parse(testing::as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message();
  const auto tokenizer = load_tokenizer(*file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_TRUE((*tokenizer)->is_special(3));
  EXPECT_FALSE((*tokenizer)->is_special(4));
  EXPECT_EQ(*(*tokenizer)->encode("ab<|im_end|>"), (std::vector<TokenId>{2, 3}));
}

GgufBuilder byte_level_file() {
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  return builder;
}

TEST(LoadTokenizer, BytePairsWithoutMergesAreRefused) {
  const auto load = [](const GgufBuilder& builder) {
    const std::string bytes = builder.build();
    const auto file = GgufFile::parse(testing::as_bytes(bytes));
    return load_tokenizer(*file);
  };
  const auto refused = load(byte_level_file().string("tokenizer.ggml.pre", "gpt-2"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("has no tokenizer.ggml.merges"), std::string::npos);
  ::testing::internal::CaptureStderr();
  const auto guessed = load(byte_level_file().strings("tokenizer.ggml.merges", {"a b"}));
  EXPECT_TRUE(guessed);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("no tokenizer.ggml.pre"), std::string::npos);
}

// The ids that Phi-3's tokenizer.json gives.
TEST(LoadTokenizer, Phi3StripsBehindSpecialTokens) {
  const std::string path = shared_data() + "/tokenizers/llama.cpp-vocabs/ggml-vocab-phi-3.gguf";
  if (!fs::exists(path)) GTEST_SKIP() << "shared data is not there";
  const auto tokenizer = load_tokenizer(path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const auto ids = [&](std::string_view text) { return *(*tokenizer)->encode(text); };
  EXPECT_EQ(ids("<|user|>\nHi<|end|>\n<|assistant|>\n"), (std::vector<TokenId>{32010, 6324, 32007, 32001}));
  EXPECT_EQ(ids("<|endoftext|>\n"), (std::vector<TokenId>{32000, 29871, 13})) << "but for this one";
}

class TokenizerFolder : public ::testing::Test {
 protected:
  TokenizerFolder() : path_(fs::path(::testing::TempDir()) / "pagoda_load_tokenizer_test") {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~TokenizerFolder() override { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  fs::path path_;
};

TEST_F(TokenizerFolder, FindsEachForm) {
  EXPECT_EQ(load_tokenizer(path_.string()).error().code(), StatusCode::not_found);
  write("tokenizer.model", read(kTokenizerFixtures + "sp_bpe.model"));
  EXPECT_TRUE(load_tokenizer(path_.string()));
  write("tokenizer.json", read(kTokenizerFixtures + "llama3.json"));
  write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  const auto folder = load_tokenizer(path_.string());
  ASSERT_TRUE(folder);
  EXPECT_EQ((*folder)->eos(), (*folder)->find("</s>"));
  const auto file = load_tokenizer((path_ / "tokenizer.json").string());
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->bos(), (*file)->find("<s>"));
  write("added_tokens.json", R"({"<|new|>": 100000})");
  write("special_tokens_map.json", R"({"eos_token": "<|new|>"})");
  const auto more = load_tokenizer(path_.string());
  ASSERT_TRUE(more);
  EXPECT_EQ((*more)->find("<|new|>"), (*more)->eos()) << "special_tokens_map.json wins";
  write("tokenizer.json", "{");
  const auto broken = load_tokenizer(path_.string());
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message().find("tokenizer.json"), std::string::npos);
  EXPECT_FALSE(load_tokenizer((path_ / "absent").string()));
}

TEST_F(TokenizerFolder, TokenizeAnswersEachLine) {
  write("in.jsonl",
        "{\"text\": \"the way\"}\nnonsense\n{\"text\": 3}\n\n{\"text\": "
        "\"a\\ud83d\\ude42\\u2028\"}\n[1]\n{\"text\": \"\xFF\"}\n");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(
      run_tokenize({.tokenizer = kTokenizerFixtures + "gpt2.json", .input = (path_ / "in.jsonl").string()}),
      0);
  const std::string encoded = ::testing::internal::GetCapturedStdout();
  std::istringstream lines(encoded);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 6u);
  for (const std::size_t bad : {1u, 2u, 4u, 5u})
    EXPECT_TRUE(all[bad].starts_with("{\"error\": ")) << all[bad];
  write("ids.jsonl", all[0] + "\n" + all[3] + "\n{\"ids\": [-1]}\n{\"ids\": [1.5]}\n");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_tokenize({.tokenizer = kTokenizerFixtures + "gpt2.json",
                          .input = (path_ / "ids.jsonl").string(),
                          .decode = true}),
            0);
  const std::string decoded = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(
      decoded.starts_with("{\"text\": \"the way\"}\n{\"text\": \"a\\ud83d\\ude42\\u2028\"}\n{\"error\": "))
      << decoded;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_tokenize({.tokenizer = (path_ / "absent").string(), .input = (path_ / "in.jsonl").string()}),
            2);
  EXPECT_EQ(
      run_tokenize({.tokenizer = kTokenizerFixtures + "gpt2.json", .input = (path_ / "absent").string()}), 2);
  const std::string errors = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 2);
}

}  // namespace
}  // namespace pagoda
