// Goal: ids equal to Hugging Face's on the goldens of shared data: real vocabularies, texts full of odd
// white space, scripts, emoji and control tokens. Skipped aloud where the data is not there.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

fs::path shared_data() {
  if (const char* path = std::getenv("PAGODA_SHARED_DATA")) return path;
  for (const char* relative : {"/../shared/data", "/../../shared/data"})
    if (fs::exists(std::string(PAGODA_SOURCE_DIR) + relative))
      return std::string(PAGODA_SOURCE_DIR) + relative;
  return {};
}

std::string read_whole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

// Plain JSON as it is, or unpacked by gzip where only a .gz is there.
std::string read_json(const fs::path& path) {
  if (fs::exists(path)) return read_whole(path);
  std::string out;
  if (FILE* pipe = popen(("gzip -dc '" + path.string() + ".gz'").c_str(), "r")) {
    char buffer[1 << 16];
    for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    pclose(pipe);
  }
  return out;
}

std::string pieces_joined(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  IncrementalDetokenizer detokenizer(tokenizer, false);
  std::string out;
  for (const TokenId id : ids) out += detokenizer.push(id);
  return out + detokenizer.finish();
}

TEST(Golden, TokenizerGoldens) {
  const fs::path data = shared_data();
  if (data.empty()) GTEST_SKIP() << "shared data is not there";
  const std::pair<const char*, const char*> kFolders[] = {{"gpt2", "tokenizers/gpt2"},
                                                          {"llama3", "tokenizers/llama3"},
                                                          {"qwen3", "tokenizers/qwen3"},
                                                          {"stories260K", "models/stories260K"}};
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  for (const auto& [name, folder] : kFolders) {
    auto made = Tokenizer::from_json(read_json(data / folder / "tokenizer.json"));
    ASSERT_TRUE(made) << name << ": " << made.error().message();
    tokenizers[name] = *std::move(made);
  }
  std::ifstream lines(data / "conformance/tokenizer_goldens.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto value = boost::json::parse(line);
    const Tokenizer& tokenizer = *tokenizers.at(std::string(value.at("tokenizer").as_string()));
    const std::string text(value.at("text").as_string());
    const auto ids = boost::json::value_to<std::vector<TokenId>>(value.at("ids"));
    const auto got = tokenizer.encode(text);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, ids) << line;
    EXPECT_EQ(pieces_joined(tokenizer, ids), tokenizer.decode(ids, false)) << line;
  }
  EXPECT_EQ(count, 1099u);
}

// llama.cpp's files: texts separated by a marker line, ids one line a text.
void check_vocab(const fs::path& inputs, const Tokenizer& tokenizer) {
  std::string texts = read_whole(inputs.string() + ".inp");
  std::ifstream ids(inputs.string() + ".out");
  const std::string kMarker = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::size_t at = 0; at <= texts.size(); ++count) {
    const std::size_t end = std::min(texts.find(kMarker, at), texts.size());
    std::string line;
    std::getline(ids, line);
    std::vector<TokenId> wanted;
    std::istringstream numbers(line);
    for (TokenId id; numbers >> id;) wanted.push_back(id);
    const auto got = tokenizer.encode(std::string_view(texts).substr(at, end - at));
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, wanted) << inputs << " text " << count;
    at = end + kMarker.size();
  }
  EXPECT_GE(count, 47u);
}

TEST(Golden, LlamaCppVocabsFromJsonAndSentencePiece) {
  const fs::path data = shared_data();
  if (data.empty()) GTEST_SKIP() << "shared data is not there";
  const fs::path vocabs = data / "tokenizers/llama.cpp-vocabs";
  const auto llama3 = Tokenizer::from_json(read_json(data / "tokenizers/llama3/tokenizer.json"));
  const auto qwen3 = Tokenizer::from_json(read_json(data / "tokenizers/qwen3/tokenizer.json"));
  const auto gpt2 = Tokenizer::from_json(read_json(data / "tokenizers/gpt2/tokenizer.json"));
  const auto llama2 = Tokenizer::from_sentencepiece(read_whole(data / "tokenizers/llama2/tokenizer.model"));
  ASSERT_TRUE(llama3 && qwen3 && gpt2 && llama2);
  check_vocab(vocabs / "ggml-vocab-llama-bpe.gguf", **llama3);
  check_vocab(vocabs / "ggml-vocab-qwen2.gguf", **qwen3);
  check_vocab(vocabs / "ggml-vocab-gpt-2.gguf", **gpt2);
  check_vocab(vocabs / "ggml-vocab-llama-spm.gguf", **llama2);
}

}  // namespace
}  // namespace pagoda
