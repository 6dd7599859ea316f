// Goal: every form of tokenizer on disk is found and read, and GGUF vocabularies give llama.cpp's goldens.
#include "cli/assembly/load_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/commands/tokenize_command.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

const std::string kFixtures = PAGODA_SOURCE_DIR "/tests/fixtures/tokenizers/";

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

class Folder : public testing::Test {
 protected:
  Folder() : path_(fs::path(testing::TempDir()) / "pagoda_load_tokenizer_test") {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() override { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  fs::path path_;
};

TEST_F(Folder, FindsEachForm) {
  EXPECT_EQ(load_tokenizer(path_.string()).error().code(), StatusCode::not_found);
  write("tokenizer.model", read(kFixtures + "sp_bpe.model"));
  EXPECT_TRUE(load_tokenizer(path_.string()));
  write("tokenizer.json", read(kFixtures + "llama3.json"));
  write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  const auto folder = load_tokenizer(path_.string());
  ASSERT_TRUE(folder);
  EXPECT_EQ((*folder)->eos(), (*folder)->find("</s>"));
  const auto file = load_tokenizer((path_ / "tokenizer.json").string());
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->bos(), (*file)->find("<s>"));
  write("tokenizer.json", "{");
  const auto broken = load_tokenizer(path_.string());
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message().find("tokenizer.json"), std::string::npos);
  EXPECT_FALSE(load_tokenizer((path_ / "absent").string()));
}

TEST_F(Folder, TokenizeAnswersEachLine) {
  write("in.jsonl",
        "{\"text\": \"the way\"}\nnonsense\n{\"text\": 3}\n\n{\"text\": "
        "\"a\\ud83d\\ude42\\u2028\"}\n[1]\n{\"text\": \"\xFF\"}\n");
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_tokenize({.tokenizer = kFixtures + "gpt2.json", .input = (path_ / "in.jsonl").string()}), 0);
  const std::string encoded = testing::internal::GetCapturedStdout();
  std::istringstream lines(encoded);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 6u);
  for (const std::size_t bad : {1u, 2u, 4u, 5u})
    EXPECT_TRUE(all[bad].starts_with("{\"error\": ")) << all[bad];
  write("ids.jsonl", all[0] + "\n" + all[3] + "\n{\"ids\": [-1]}\n{\"ids\": [1.5]}\n");
  testing::internal::CaptureStdout();
  EXPECT_EQ(
      run_tokenize(
          {.tokenizer = kFixtures + "gpt2.json", .input = (path_ / "ids.jsonl").string(), .decode = true}),
      0);
  const std::string decoded = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(
      decoded.starts_with("{\"text\": \"the way\"}\n{\"text\": \"a\\ud83d\\ude42\\u2028\"}\n{\"error\": "))
      << decoded;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_tokenize({.tokenizer = (path_ / "absent").string(), .input = (path_ / "in.jsonl").string()}),
            2);
  EXPECT_EQ(run_tokenize({.tokenizer = kFixtures + "gpt2.json", .input = (path_ / "absent").string()}), 2);
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 2);
}

}  // namespace
}  // namespace pagoda
