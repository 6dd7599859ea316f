// Tokenizer: what fixtures from another implementation cannot show: plain ranges, refusals by name, damaged
// files, properties, sizes that must not hang.
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <ctime>
#include <fstream>
#include <random>
#include <sstream>

#include "base/utf8.h"
#include "text/detokenizer.h"
#include "tokenizer/byte_level.h"

namespace pagoda {
namespace {

std::string read_fixture(const std::string& name) {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/fixtures/tokenizers/" + name, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

std::unique_ptr<Tokenizer> load(const std::string& name) {
  auto made = name.ends_with(".json") ? Tokenizer::from_json(read_fixture(name))
                                      : Tokenizer::from_sentencepiece(read_fixture(name));
  if (!made) ADD_FAILURE() << made.error().message();
  return *std::move(made);
}

std::string random_utf8(std::mt19937_64& rng, std::size_t length) {
  std::string out;
  for (std::size_t i = 0; i < length; ++i) {
    static constexpr std::array<char32_t, 6> kLimits = {0x80, 0x80, 0x250, 0x3100, 0xFFFF, 0x10FFFF};
    const char32_t c = static_cast<char32_t>(rng() % kLimits[rng() % kLimits.size()]);
    append_code_point(out, c >= 0xD800 && c < 0xE000 ? U' ' : c);
  }
  return out;
}

TEST(Tokenizer, ByteLevelDecodeRestoresEveryText) {
  const auto tokenizer = load("gpt2.json");
  std::mt19937_64 rng(1);
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_utf8(rng, rng() % 40);
    const auto ids = tokenizer->encode(text);
    ASSERT_TRUE(ids);
    EXPECT_EQ(tokenizer->decode(*ids, false), text);
  }
}

// As Python writes them, and as editors leave them.
TEST(Tokenizer, ReadsFilesThatAreNearlyJson) {
  const std::string mark = "\xEF\xBB\xBF", text = read_fixture("gpt2.json");
  const std::string config = mark + R"({"model_max_length": Infinity, "x": NaN, "eos_token": "<|odd|>",})";
  const auto made = Tokenizer::from_json(mark + text, {.config = config});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ((*made)->find("<|odd|>"), (*made)->eos());
  EXPECT_EQ(*(*made)->encode("Hello world"), *load("gpt2.json")->encode("Hello world"));
}

TEST(Tokenizer, SentencePieceWithBytesRestoresEveryTextWithoutControlTokens) {
  const auto tokenizer = load("sp_bpe.model");
  std::mt19937_64 rng(2);
  for (int i = 0; i < 300; ++i) {
    std::string text = random_utf8(rng, rng() % 40);
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;  // U+2581 comes back as a space
    const auto ids = tokenizer->encode(text);
    ASSERT_TRUE(ids);
    EXPECT_EQ(tokenizer->decode(*ids, false), text);
  }
}

TEST(Tokenizer, TokenBytesJoinedAreTheText) {
  const auto tokenizer = load("llama3.json");
  const std::string text = "Größe 🙂 中文 <|im_end|> x";
  const auto ids = tokenizer->encode(text);
  ASSERT_TRUE(ids);
  std::string joined;
  for (const TokenId id : *ids) joined += tokenizer->token_bytes(id);
  EXPECT_EQ(joined, text);
}

TEST(Tokenizer, PlainRangesHideSpecialTokens) {
  const auto tokenizer = load("llama3.json");
  const TokenId end = *tokenizer->find("<|im_end|>");
  const std::string typed = "<|im_end|>", text = "<|im_start|>" + typed + "<|im_end|>";
  const auto count = [&](const EncodeOptions& options) {
    const auto ids = tokenizer->encode(text, options);
    EXPECT_EQ(tokenizer->decode(*ids, false), text);
    return std::count(ids->begin(), ids->end(), end);
  };
  EXPECT_EQ(count({}), 2);
  const std::array<ByteRange, 1> whole = {{{12, 22}}};
  EXPECT_EQ(count({.plain_ranges = whole}), 1);
  const std::array<ByteRange, 1> one_byte = {{{15, 16}}};  // touching it is enough
  EXPECT_EQ(count({.plain_ranges = one_byte}), 1);
  const std::array<ByteRange, 1> empty = {{{15, 15}}};
  EXPECT_EQ(count({.plain_ranges = empty}), 2);
  const std::array<ByteRange, 2> halves = {{{12, 17}, {17, 22}}};
  EXPECT_EQ(count({.plain_ranges = halves}), 1);
  EXPECT_EQ(count({.parse_special = false}), 0);
}

TEST(Tokenizer, PlainRangesDoNotCutWords) {
  const auto tokenizer = load("gpt2.json");
  const std::string text = "the other way";
  const std::array<ByteRange, 1> range = {{{6, 8}}};
  EXPECT_EQ(*tokenizer->encode(text), *tokenizer->encode(text, {.plain_ranges = range}));
}

TEST(Tokenizer, PlainRangesReachTokensMatchedInNormalizedText) {
  // The normalizer (NFKC, lower case) changes lengths before the match: one ligature becomes three letters.
  const auto tokenizer = load("added_normalized.json");
  const TokenId token = *tokenizer->find("<S>");
  const std::string text = "\xEF\xAC\x83 <s> <S>";
  const auto count = [&](std::vector<ByteRange> ranges) {
    const auto ids = tokenizer->encode(text, {.plain_ranges = ranges});
    return std::count(ids->begin(), ids->end(), token);
  };
  EXPECT_EQ(count({}), 2);
  EXPECT_EQ(count({{4, 7}}), 1);
  EXPECT_EQ(count({{8, 11}}), 1);
  EXPECT_EQ(count({{0, 3}}), 2);
  EXPECT_EQ(count({{0, 11}}), 0);
}

TEST(Tokenizer, ControlTokensNeverComeOutOfPlainText) {
  for (const char* name : {"gpt2.json", "llama3.json", "llama.json", "unigram.json", "word_level.json",
                           "word_piece.json", "sp_bpe.model", "sp_unigram.model", "sp_bpe_symbols.model"}) {
    const auto tokenizer = load(name);
    for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
      if (!tokenizer->is_special(id)) continue;
      const std::string text = tokenizer->token_string(id);
      const std::array<ByteRange, 1> all = {{{0, text.size()}}};
      const auto ids = tokenizer->encode(text, {.plain_ranges = all});
      ASSERT_TRUE(ids) << ids.error().message();
      const bool unknown = text == "<unk>" || text == "[UNK]";  // any unknown text gives these
      if (!unknown) EXPECT_EQ(std::count(ids->begin(), ids->end(), id), 0) << name << " " << text;
    }
  }
}

TEST(Tokenizer, BadUtf8IsRefused) {
  const auto tokenizer = load("gpt2.json");
  const auto ids = tokenizer->encode("a\xFF");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), StatusCode::invalid_argument);
}

TEST(Tokenizer, IdsOutOfRangeAreSkipped) {
  const auto tokenizer = load("gpt2.json");
  const std::array<TokenId, 4> ids = {-1, 1 << 30, tokenizer->vocab_size(), *tokenizer->find("a")};
  EXPECT_EQ(tokenizer->decode(ids, false), "a");
  EXPECT_EQ(tokenizer->token_bytes(-1), "");
  EXPECT_EQ(tokenizer->token_string(1 << 30), "");
}

TEST(Tokenizer, ALongWordIsNotQuadratic) {
  for (const char* name :
       {"gpt2.json", "llama.json", "sp_bpe.model", "sp_unigram.model", "word_piece.json"}) {
    const auto tokenizer = load(name);
    std::string text;
    while (text.size() < std::size_t{1} << 20) text += "theandof";
    const auto ids = tokenizer->encode(text);  // minutes if it were
    ASSERT_TRUE(ids) << name;
    EXPECT_GT(ids->size(), 0u);
  }
  const auto marks = load("qwen2_nfc.json");
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += "\xCC\x81\xCC\xA3";
  EXPECT_TRUE(marks->encode(text));
}

TEST(Tokenizer, UnsupportedComponentsAreRefusedByName) {
  const auto message = [](const std::string& normalizer, const std::string& pre_tokenizer,
                          const std::string& model) {
    const auto made =
        Tokenizer::from_json("{\"normalizer\":" + normalizer + ",\"pre_tokenizer\":" + pre_tokenizer +
                             ",\"model\":" + model + "}");
    return made ? "" : made.error().message();
  };
  const std::string kModel = R"({"type":"WordLevel","vocab":{"a":0}})";
  EXPECT_EQ(message("null", "null", kModel), "");
  EXPECT_NE(message(R"({"type":"Rot13"})", "null", kModel).find("'Rot13'"), std::string::npos);
  EXPECT_NE(message("null", R"({"type":"UnicodeScripts"})", kModel).find("'UnicodeScripts'"),
            std::string::npos);
  EXPECT_NE(message("null", "null", R"({"type":"Neural","vocab":{}})").find("'Neural'"), std::string::npos);
  EXPECT_NE(message("null", R"({"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})", kModel),
            "");
}

TEST(Tokenizer, DamagedFilesAreErrorsNotCrashes) {
  std::mt19937_64 rng(3);
  for (const char* name :
       {"added_kinds.json", "llama.json", "unigram.json", "sp_bpe.model", "precompiled.json"}) {
    const std::string good = read_fixture(name);
    ASSERT_FALSE(good.empty());
    for (int i = 0; i < 60; ++i) {
      std::string bad = good;
      if (rng() % 2) bad.resize(rng() % bad.size());
      for (std::size_t changes = rng() % 4; changes > 0 && !bad.empty(); --changes)
        bad[rng() % bad.size()] = static_cast<char>(rng());
      const auto made = std::string(name).ends_with(".json") ? Tokenizer::from_json(bad)
                                                             : Tokenizer::from_sentencepiece(bad);
      if (made) {
        const auto ids = (*made)->encode("the other <s> way 123 \xE4\xB8\xAD");
        if (ids) (void)(*made)->decode(*ids, false);
      } else {
        EXPECT_FALSE(made.error().message().empty());
      }
    }
  }
  for (const char* bad : {"", "{", "[]", "{}", "{\"model\":{}}",
                          "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
                          "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]}}",
                          "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
                          "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
                          "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":7}}"})
    EXPECT_FALSE(Tokenizer::from_json(bad)) << bad;
}

// A field of a protocol buffer: bytes.
std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  std::size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) out += static_cast<char>((size & 0x7F) | 0x80);
  return out + static_cast<char>(size) + bytes;
}

// A charsmap's key may end inside a character; what is left of that is no character.
TEST(Tokenizer, ACharsmapReplacesWholeCharacters) {
  std::vector<std::uint32_t> units(512);
  units[0] = 0x100 << 10;
  units[0x1C3] = 1 << 10 | 1 << 8 | 0xC3;  // the key "\xC3"
  units[0x1C2] = 1u << 31;                 // its replacement: the one at 0
  std::string charsmap(4 + units.size() * 4, '\0');
  const auto bytes = static_cast<std::uint32_t>(units.size() * 4);
  std::memcpy(charsmap.data(), &bytes, 4);
  std::memcpy(charsmap.data() + 4, units.data(), units.size() * 4);
  charsmap += std::string("x\0", 2);
  const std::string unigram =
      field(1, field(1, "<unk>") + "\x18\x02") + field(1, field(1, "x")) + field(3, field(2, charsmap));
  const auto made = Tokenizer::from_sentencepiece(unigram);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(*(*made)->encode("x\u00e9"), (std::vector<TokenId>{0, 1, 0}));
}

TEST(Tokenizer, ANormalizerMayNotFillTheMemory) {
  std::string steps;
  for (int i = 0; i < 40; ++i)
    steps += std::string(i == 0 ? "" : ",") + R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  const std::string begin =
      R"({"normalizer":{"type":"Sequence","normalizers":[)" + steps +
      R"(]},"model":{"type":"WordLevel","vocab":{"b":0},"unk_token":"b"},"added_tokens":[)";
  const auto made = Tokenizer::from_json(begin + "]}");
  ASSERT_TRUE(made) << made.error().message();
  const auto ids = (*made)->encode("an");
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().message().find("64 times"), std::string::npos);
  EXPECT_TRUE((*made)->encode("b"));
  // The same of a token in the file itself.
  EXPECT_FALSE(Tokenizer::from_json(begin + R"({"id":1,"content":"a","normalized":true}]})"));
  // And in one step, of a long replacement; by a regular expression, too.
  for (const char* pattern : {R"({"String":"a"})", R"({"Regex":"a"})"}) {
    const auto once = Tokenizer::from_json(
        R"({"normalizer":{"type":"Replace","pattern":)" + std::string(pattern) + R"(,"content":")" +
        std::string(100'000, 'b') +
        R"("},"model":{"type":"WordLevel","vocab":{"b":0},"unk_token":"b"},"added_tokens":[]})");
    ASSERT_TRUE(once) << once.error().message();
    EXPECT_FALSE((*once)->encode(std::string(100'000, 'a')));
  }
}

TEST(Tokenizer, ConfigGivesBosAndEosAsStringsOrObjects) {
  const std::string json =
      R"({"model":{"type":"WordLevel","vocab":{"a":0,"<s>":1,"</s>":2},"unk_token":"a"},"added_tokens":[]})";
  const auto made = Tokenizer::from_json(
      json, {.config = R"({"bos_token":"<s>","eos_token":{"content":"</s>"},"add_bos_token":true,
    "added_tokens_decoder":{"2":{"content":"</s>","special":true},"9":{"content":"<new>","special":true}}})"});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ((*made)->bos(), 1);
  EXPECT_EQ((*made)->eos(), 2);
  EXPECT_TRUE((*made)->is_special(2));
  EXPECT_EQ((*made)->find("<new>"), 3);
  EXPECT_EQ(*(*made)->encode("a", {.add_special_tokens = true}), (std::vector<TokenId>{0}))
      << "only a post-processor of tokenizer.json surrounds a text";
}

TEST(Tokenizer, VocabAndMergesOfAFolderInOldForm) {
  std::string vocab = "{";
  TokenId next = 0;
  for (int byte = 'a'; byte <= 'z'; ++byte)
    vocab += "\"" + std::string(1, static_cast<char>(byte)) + "\":" + std::to_string(next++) + ",";
  vocab += "\"\u0120\":26,\"th\":27,\"the\":28,\"\u0120the\":29,\"<|endoftext|>\":30}";
  const auto made = Tokenizer::from_vocab_and_merges(
      vocab, "#version: 0.2\nt h\nth e\n\u0120 the\n",
      {.config = R"({"bos_token":"<|endoftext|>","eos_token":"<|endoftext|>","add_bos_token":true})"});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(*(*made)->encode("the the<|endoftext|>x", {.add_special_tokens = true}),
            (std::vector<TokenId>{30, 28, 29, 30, 23}));
  EXPECT_FALSE(Tokenizer::from_vocab_and_merges(vocab, "a b c\n"));
  const auto refused =
      Tokenizer::from_vocab_and_merges(vocab, "t h\n", {.config = R"({"tokenizer_class":"CtrlTokenizer"})"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("tokenizer_class 'CtrlTokenizer' is not supported"),
            std::string::npos);
  const auto ids = [&](std::string_view model_type, std::string_view config) {
    const auto of_model = Tokenizer::from_vocab_and_merges(vocab, "t h\n", {.config = config}, model_type);
    return of_model ? *(*of_model)->encode("the (the") : std::vector<TokenId>{};
  };
  const std::vector<TokenId> gpt2 = ids("gpt2", "{}"),
                             qwen2 = ids("gpt2", R"({"tokenizer_class":"Qwen2Tokenizer"})");
  EXPECT_EQ(ids("qwen3", "{}"), qwen2);
  EXPECT_EQ(ids("qwen3", R"({"tokenizer_class":"GPT2TokenizerFast"})"), gpt2);
  EXPECT_EQ(ids("mystery", R"({"tokenizer_class":"PreTrainedTokenizerFast"})"), gpt2) << "with a warning";
}

class Gguf : public ::testing::Test {
 protected:
  Gguf() {
    for (const std::string& character : byte_level_alphabet()) tokens_.push_back(character);
    for (const char* token : {"th", "the", "\u0120the", "<|end|>", "<user>"}) tokens_.push_back(token);
    types_.assign(tokens_.size(), 1);
    types_[259] = 3, types_[260] = 4;
    vocabulary_.model = "gpt2";
    vocabulary_.pre = "smollm";
    vocabulary_.tokens = tokens_;
    vocabulary_.types = types_;
    vocabulary_.merges = merges_;
    vocabulary_.bos = 259, vocabulary_.eos = 259;
  }
  std::vector<std::string_view> tokens_, merges_ = {"t h", "th e", "\u0120 the"};
  std::vector<std::int32_t> types_;
  GgufVocabulary vocabulary_;
};

TEST_F(Gguf, ByteLevel) {
  const auto made = Tokenizer::from_gguf(vocabulary_);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(*(*made)->encode("the the<|end|>12<user>"), (std::vector<TokenId>{257, 258, 259, '1', '2', 260}));
  EXPECT_TRUE((*made)->is_special(259));
  EXPECT_FALSE((*made)->is_special(260));
  vocabulary_.add_bos = true;
  EXPECT_EQ(*(*Tokenizer::from_gguf(vocabulary_))->encode("a", {.add_special_tokens = true}),
            (std::vector<TokenId>{259, 'a'}));
}

TEST_F(Gguf, EncodersJoinPairs) {
  vocabulary_.eos = 260;
  const auto pair_of = [&](std::string_view pre) {
    vocabulary_.pre = pre;
    return (*Tokenizer::from_gguf(vocabulary_))->encode_pair("a", "b")->ids;
  };
  EXPECT_EQ(pair_of("roberta-bpe"), (std::vector<TokenId>{259, 'a', 260, 260, 'b', 260}));
  EXPECT_EQ(pair_of("modern-bert"), (std::vector<TokenId>{259, 'a', 260, 'b', 260}));
  EXPECT_EQ(pair_of("smollm"), (std::vector<TokenId>{'a', 'b'}));
}

TEST_F(Gguf, EveryKnownPreTokenizerCompiles) {
  vocabulary_.pre = "no-such-thing";
  const auto refused = Tokenizer::from_gguf(vocabulary_);
  ASSERT_FALSE(refused);
  std::string list = refused.error().message();
  EXPECT_NE(list.find("'no-such-thing'"), std::string::npos);
  list = list.substr(list.find("supported: ") + 11);
  list.back() = ',';
  std::size_t count = 0;
  for (std::size_t at = 0; at < list.size(); ++count) {
    const std::size_t end = list.find(',', at);
    vocabulary_.pre = list.substr(at, end - at);
    at = end + 2;
    const auto made = Tokenizer::from_gguf(vocabulary_);
    ASSERT_TRUE(made) << vocabulary_.pre << ": " << made.error().message();
    const std::string text =
        "It's 1234567 caf\u00e9s, \u4e2d\u6587 foo(bar)\r\n\r\n  <sentinel:3>\t!! \U0001F642";
    EXPECT_EQ((*made)->decode(*(*made)->encode(text), false), text) << vocabulary_.pre;
  }
  EXPECT_GT(count, 50u);
}

// Four times the text, at most ten times as long: sixteen if it were quadratic.
TEST_F(Gguf, NoPreTokenizerIsQuadratic) {
  const auto processor_seconds = [] {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const auto seconds = [&](const Tokenizer& tokenizer, const std::string& text) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const double begin = processor_seconds();
      EXPECT_TRUE(tokenizer.encode(text));
      best = std::min(best, processor_seconds() - begin);
    }
    return best;
  };
  for (const char* pre : {"superbpe", "deepseek-llm", "tekken", "gpt-4o"}) {
    vocabulary_.pre = pre;
    const auto made = Tokenizer::from_gguf(vocabulary_);
    ASSERT_TRUE(made) << made.error().message();
    for (const char* unit : {"1", " ", "a", "!", "Aa", "\n"}) {
      std::string text;
      while (text.size() < 40'000) text += unit;
      const double once = seconds(**made, text + "\u4e2d");
      const double four_times = seconds(**made, text + text + text + text + "\u4e2d");
      EXPECT_LT(four_times, 10 * once + 0.05) << pre << " " << unit;  // so little says nothing
    }
  }
}

TEST_F(Gguf, UnknownModelIsRefusedByName) {
  vocabulary_.model = "rwkv";
  const auto made = Tokenizer::from_gguf(vocabulary_);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("'rwkv'"), std::string::npos);
}

TEST(Pairs, AreJoinedAsTheTokenizerSays) {
  const auto made = [](std::string_view post_processor) {
    std::string json = R"({"added_tokens": [], "model": {"type": "WordPiece", "unk_token": "[UNK]",
      "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
      "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4}},
      "pre_tokenizer": {"type": "Whitespace"}, "post_processor": )";
    return Tokenizer::from_json(json + std::string(post_processor) + "}");
  };
  const auto pair_of = [](const Tokenizer& tokenizer) { return *tokenizer.encode_pair("a b", "b"); };
  const auto bert = made(R"({"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]})");
  ASSERT_TRUE(bert) << bert.error().message();
  EXPECT_EQ(pair_of(**bert).ids, std::vector<TokenId>({1, 3, 4, 2, 4, 2}));
  EXPECT_EQ(pair_of(**bert).second, 4);
  const auto roberta = made(R"({"type": "RobertaProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]})");
  ASSERT_TRUE(roberta);
  EXPECT_EQ(pair_of(**roberta).ids, std::vector<TokenId>({1, 3, 4, 2, 2, 4, 2}));
  EXPECT_EQ(pair_of(**roberta).second, 0);
  const auto with_template = made(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"ids": [1]}, "[SEP]": {"ids": [2]}}})");
  ASSERT_TRUE(with_template) << with_template.error().message();
  EXPECT_EQ(pair_of(**with_template).ids, std::vector<TokenId>({1, 3, 4, 2, 4}));
  EXPECT_EQ(pair_of(**with_template).second, 3);
  EXPECT_EQ(*(*with_template)->encode("a", {.add_special_tokens = true}), std::vector<TokenId>({1, 3}));
  const auto plain = made("null");
  ASSERT_TRUE(plain);
  EXPECT_EQ(pair_of(**plain).ids, std::vector<TokenId>({3, 4, 4}));
}

}  // namespace
}  // namespace pagoda
