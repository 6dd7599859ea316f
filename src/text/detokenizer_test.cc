#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/utf8.h"

namespace pagoda {
namespace {

std::unique_ptr<Tokenizer> load(const std::string& name) {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/fixtures/tokenizers/" + name, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  auto made = Tokenizer::from_json(bytes.str());
  if (!made) ADD_FAILURE() << made.error().message();
  return *std::move(made);
}

std::string stream(IncrementalDetokenizer& detokenizer, const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids) out += detokenizer.push(id);
  return out + detokenizer.finish();
}

// An answer's text is the text of prompt and answer without the prompt's, whatever the tokenizer.
TEST(Detokenizer, ContinuesAPrompt) {
  for (const char* name : {"gpt2.json", "llama.json", "metaspace_first_true.json", "word_piece.json",
                           "unigram.json", "no_decoder.json"}) {
    const auto tokenizer = load(name);
    const auto all = *tokenizer->encode("the other way could see them then that with from");
    for (std::size_t cut = 1; cut < all.size(); ++cut) {
      const std::vector<TokenId> prompt(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(cut));
      const std::vector<TokenId> rest(all.begin() + static_cast<std::ptrdiff_t>(cut), all.end());
      IncrementalDetokenizer detokenizer(*tokenizer, true, prompt);
      EXPECT_EQ(tokenizer->decode(prompt, true) + stream(detokenizer, rest), tokenizer->decode(all, true))
          << name << cut;
    }
  }
}

TEST(Detokenizer, LeadingSpaceIsKeptAfterAPromptAndDroppedWithout) {
  const auto tokenizer = load("llama.json");
  const auto ids = *tokenizer->encode("the way");
  IncrementalDetokenizer alone(*tokenizer, true), after(*tokenizer, true, ids);
  EXPECT_EQ(stream(alone, ids), "the way");
  EXPECT_EQ(stream(after, ids), " the way");
  const std::vector<TokenId> bos = {*tokenizer->find("<s>")};
  IncrementalDetokenizer after_bos(*tokenizer, true, bos);  // BOS is no text
  EXPECT_EQ(stream(after_bos, ids), "the way");
}

TEST(Detokenizer, HoldsHalfACharacter) {
  const auto tokenizer = load("gpt2.json");
  const auto ids = *tokenizer->encode("\xF0\x9F\xA6\x99");  // bytes that merges do not join to a whole
  ASSERT_GE(ids.size(), 3u);
  IncrementalDetokenizer detokenizer(*tokenizer, true);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(detokenizer.push(ids[i]), "");
  EXPECT_EQ(detokenizer.push(ids.back()), "\xF0\x9F\xA6\x99");
  IncrementalDetokenizer broken(*tokenizer, true);
  EXPECT_EQ(broken.push(ids[0]), "");
  EXPECT_EQ(broken.finish(), "\xEF\xBF\xBD");
  // A prompt that ends inside a character: it comes out when it is whole.
  IncrementalDetokenizer late(*tokenizer, true, std::span(ids).first(1));
  std::string out;
  for (std::size_t i = 1; i < ids.size(); ++i) out += late.push(ids[i]);
  EXPECT_EQ(out, "\xF0\x9F\xA6\x99");
}

TEST(Utf8, LossyStreamAgreesWithWholeTextHoweverItIsCut) {
  const std::string bytes =
      "a\xF0\x9F\x99\x82\xF0\x9F\x41\xE4\xB8\xFF\xC0\x80\xED\xA0\x80\xE4\xB8\xAD\xF4\x90\x80\x80z\xF0\x9F";
  std::string whole;
  Utf8LossyStream at_once;
  at_once.push(bytes, whole);
  at_once.finish(whole);
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(whole, "a\xF0\x9F\x99\x82" + r + "A" + r + r + r + r + r + r + r + "\xE4\xB8\xAD" + r + r + r +
                       r + "z" + r);
  for (std::size_t step = 1; step < 5; ++step) {
    std::string out;
    Utf8LossyStream stream;
    for (std::size_t at = 0; at < bytes.size(); at += step)
      stream.push(std::string_view(bytes).substr(at, step), out);
    stream.finish(out);
    EXPECT_EQ(out, whole) << step;
  }
}

TEST(Utf8, Validity) {
  for (const char* good : {"", "plain ascii, longer than eight bytes", "\xC2\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_valid_utf8(good));
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC2", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "abcdefgh\xFF", "\xE4\xB8", "\xFE"})
    EXPECT_FALSE(is_valid_utf8(bad));
}

}  // namespace
}  // namespace pagoda
