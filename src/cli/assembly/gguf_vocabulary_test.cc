// Goal: a folder's tokenizer, written as GGUF metadata and read again, makes the same of texts; one that such
// files cannot have is refused by name.
#include "cli/assembly/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "cli/assembly/load_tokenizer.h"
#include "loader/test_files.h"

namespace pagoda {
namespace {

const std::string kFixtures = PAGODA_SOURCE_DIR "/tests/fixtures/tokenizers/";

// A folder with this tokenizer, and no weights but one.
class Folder {
 public:
  explicit Folder(const std::string& tokenizer, std::int32_t vocab_size = 600) {
    const std::string size = std::to_string(vocab_size);
    scratch_.write("config.json",
                   R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":8,
        "intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":1,"vocab_size":)" +
                       size + "}");
    scratch_.write("model.safetensors",
                   testing::safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
    if (!tokenizer.empty()) scratch_.write("tokenizer.json", testing::read_binary(kFixtures + tokenizer));
    scratch_.write("tokenizer_config.json", R"({"chat_template":"{{ messages }}"})");
    auto source = ModelSource::open(scratch_.path());
    if (source) source_ = *std::move(source);
    info_.decoder.vocab_size = vocab_size;
  }
  const ModelSource& source() const { return *source_; }
  Result<std::vector<GgufEntry>> entries() const { return gguf_vocabulary(*source_, info_); }

 private:
  testing::ScratchFolder scratch_;
  std::unique_ptr<ModelSource> source_;
  ModelInfo info_;
};

TEST(GgufVocabulary, MakesTheSameTokens) {
  for (const char* name :
       {"gpt2.json", "cl100k.json", "llama3.json", "gpt4o.json", "deepseek.json", "falcon.json",
        "starcoder.json", "qwen2_nfc.json", "llama.json", "word_piece.json"}) {
    SCOPED_TRACE(name);
    const Folder folder(name);
    const auto entries = folder.entries();
    ASSERT_TRUE(entries) << entries.error().message();
    const std::string head = gguf_head(*entries, {}, 32);
    const auto file = GgufFile::parse(std::as_bytes(std::span(head)));
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(*file->string("tokenizer.chat_template"), "{{ messages }}");
    EXPECT_EQ(file->array("tokenizer.ggml.tokens")->size(), 600u) << "those that are not used, too";
    const auto own = load_tokenizer(folder.source()), made = load_tokenizer(*file);
    ASSERT_TRUE(own && made);
    std::istringstream lines(testing::read_binary(kFixtures + "cases.jsonl"));
    std::set<std::string> texts;
    for (std::string line; std::getline(lines, line);) {
      const boost::json::value each = boost::json::parse(line);
      if (const auto* text = each.as_object().if_contains("text"); text != nullptr)
        texts.insert(std::string(text->as_string()));
    }
    EXPECT_GT(texts.size(), 10u);
    for (const std::string& text : texts) {
      const EncodeOptions how = {.add_special_tokens = true};
      EXPECT_EQ(*(*own)->encode(text, how), *(*made)->encode(text, how)) << text;
    }
  }
}

TEST(GgufVocabulary, IsRefusedByName) {
  const auto refused = [](const std::string& name, std::int32_t vocab_size = 600) {
    const auto entries = Folder(name, vocab_size).entries();
    return entries ? std::string() : entries.error().message();
  };
  EXPECT_NE(refused("unigram.json").find("model 'Unigram' cannot be written"), std::string::npos);
  EXPECT_NE(refused("word_level.json").find("model 'WordLevel' cannot be written"), std::string::npos);
  EXPECT_NE(refused("gpt2.json", 100).find("is beyond the model's vocabulary of 100"), std::string::npos);
  EXPECT_NE(refused("split_removed.json").find("no name for how tokenizer.json splits text"),
            std::string::npos);
  EXPECT_TRUE(Folder("").entries()->empty());
}

}  // namespace
}  // namespace pagoda
