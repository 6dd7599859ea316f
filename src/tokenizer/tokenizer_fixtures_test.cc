// Goal: tiny tokenizers of every kind (tests/fixtures/make_tokenizers.py) give Hugging Face's ids and texts,
// and the detokenizer's pieces, joined, give decode()'s text without ever cutting a character.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {
namespace {

const std::string kFolder = PAGODA_SOURCE_DIR "/tests/fixtures/tokenizers/";

const Tokenizer& tokenizer(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  std::unique_ptr<Tokenizer>& slot = loaded[name];
  if (!slot) {
    const bool json = std::filesystem::exists(kFolder + name + ".json");
    std::ifstream file(kFolder + name + (json ? ".json" : ".model"), std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    auto made = json ? Tokenizer::from_json(bytes.str()) : Tokenizer::from_sentencepiece(bytes.str());
    if (!made) ADD_FAILURE() << name << ": " << made.error().message();
    slot = *std::move(made);
  }
  return *slot;
}

template <class Check>
std::size_t for_each_line(const std::string& file, const Check& check) {
  std::ifstream lines(kFolder + file);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    SCOPED_TRACE(line);
    check(boost::json::parse(line).as_object());
  }
  return count;
}

std::vector<TokenId> ids_of(const boost::json::value& list) {
  return boost::json::value_to<std::vector<TokenId>>(list);
}

TEST(TokenizerFixtures, Encode) {
  const std::size_t count = for_each_line("cases.jsonl", [](const boost::json::object& entry) {
    const Tokenizer& subject = tokenizer(std::string(entry.at("tokenizer").as_string()));
    const std::string text(entry.at("text").as_string());
    const auto ids = subject.encode(text);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(*ids, ids_of(entry.at("ids")));
    if (const auto* wrapped = entry.if_contains("wrapped")) {
      const auto with_special = subject.encode(text, {.add_special_tokens = true});
      ASSERT_TRUE(with_special);
      EXPECT_EQ(*with_special, ids_of(*wrapped));
    }
  });
  EXPECT_GT(count, 500u);
}

// Files beside a tokenizer.json, as transformers reads them (tests/fixtures/make_side_files.py).
TEST(TokenizerFixtures, FilesBesideTheTokenizer) {
  const std::size_t count = for_each_line("side_files.jsonl", [](const boost::json::object& entry) {
    std::ifstream file(kFolder + std::string(entry.at("tokenizer").as_string()) + ".json");
    std::stringstream bytes;
    bytes << file.rdbuf();
    const auto text = [&](const char* name) { return std::string_view(entry.at(name).as_string()); };
    const auto made = Tokenizer::from_json(bytes.str(), {.config = text("config"),
                                                         .special_tokens_map = text("special_tokens_map"),
                                                         .added_tokens = text("added_tokens")});
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ((*made)->bos(), entry.at("bos").to_number<TokenId>());
    EXPECT_EQ((*made)->eos(), entry.at("eos").to_number<TokenId>());
    std::vector<TokenId> special;
    for (TokenId id = 0; id < (*made)->vocab_size(); ++id)
      if ((*made)->is_special(id)) special.push_back(id);
    EXPECT_EQ(special, ids_of(entry.at("special")));
    for (const boost::json::value& one : entry.at("cases").as_array()) {
      const boost::json::object& item = one.as_object();
      const std::string_view wanted = item.at("text").as_string();
      SCOPED_TRACE(wanted);
      EXPECT_EQ(*(*made)->encode(wanted), ids_of(item.at("ids")));
      EXPECT_EQ(*(*made)->encode(wanted, {.add_special_tokens = true}), ids_of(item.at("wrapped")));
    }
  });
  EXPECT_GE(count, 60u);
}

// A vocabulary and merges, cut as the class that is named has it (tests/fixtures/make_token_classes.py).
TEST(TokenizerFixtures, ClassesOfVocabularyAndMerges) {
  const std::size_t count = for_each_line("token_classes.jsonl", [](const boost::json::object& entry) {
    const auto text = [&](const char* name) { return std::string_view(entry.at(name).as_string()); };
    SCOPED_TRACE(text("class"));
    const std::string config = concat("\xEF\xBB\xBF", text("config"));  // as some editors save a file
    const auto made = Tokenizer::from_vocab_and_merges(
        text("vocab"), text("merges"), {.config = config, .special_tokens_map = text("special_tokens_map")});
    ASSERT_TRUE(made) << made.error().message();
    const Tokenizer& tokenizer = **made;
    EXPECT_EQ(tokenizer.bos(), entry.at("bos").to_number<TokenId>());
    EXPECT_EQ(tokenizer.eos(), entry.at("eos").to_number<TokenId>());
    std::vector<TokenId> special;
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id)
      if (tokenizer.is_special(id)) special.push_back(id);
    EXPECT_EQ(special, ids_of(entry.at("special")));
    for (const boost::json::value& one : entry.at("cases").as_array()) {
      const boost::json::object& item = one.as_object();
      const std::string_view wanted = item.at("text").as_string();
      SCOPED_TRACE(wanted);
      const auto ids = tokenizer.encode(wanted);
      ASSERT_TRUE(ids) << ids.error().message();
      EXPECT_EQ(*ids, ids_of(item.at("ids")));
      EXPECT_EQ(*tokenizer.encode(wanted, {.add_special_tokens = true}), ids_of(item.at("wrapped")));
      EXPECT_EQ(tokenizer.decode(*ids, false), std::string_view(item.at("decoded").as_string()));
    }
    const boost::json::array& pair = entry.at("pair").as_array();
    const auto joined =
        tokenizer.encode_pair(std::string_view(pair[0].as_string()), std::string_view(pair[1].as_string()));
    ASSERT_TRUE(joined) << joined.error().message();
    EXPECT_EQ(joined->ids, ids_of(pair[2]));
  });
  EXPECT_EQ(count, 17u);
}

// Files that list tokens by rank, and what mistral_common and tiktoken make of them (make_rank_files.py).
TEST(TokenizerFixtures, TokensByRank) {
  const auto read = [](const std::string& name) {
    std::ifstream file(kFolder + "ranks/" + name, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  };
  std::map<std::string, std::unique_ptr<Tokenizer>> made;
  const auto load = [&](const std::string& name) -> const Tokenizer& {
    std::unique_ptr<Tokenizer>& slot = made[name];
    if (slot) return *slot;
    const std::string config = name == "tiktoken.model" ? read("tiktoken_config.json") : "";
    auto tokenizer = name.starts_with("tekken")
                         ? Tokenizer::from_tekken(read(name))
                         : Tokenizer::from_tiktoken(name, read(name), {.config = config});
    if (!tokenizer) ADD_FAILURE() << name << ": " << tokenizer.error().message();
    slot = *std::move(tokenizer);
    return *slot;
  };
  const std::size_t count = for_each_line("ranks/cases.jsonl", [&](const boost::json::object& entry) {
    const Tokenizer& tokenizer = load(std::string(entry.at("file").as_string()));
    const std::string text(entry.at("text").as_string());
    const auto ids = tokenizer.encode(text);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(*ids, ids_of(entry.at("ids")));
    for (const TokenId id : *ids) EXPECT_LT(id, tokenizer.vocab_size());
  });
  EXPECT_GT(count, 150u);
  const Tokenizer& tekken = load("tekken.json");
  EXPECT_EQ(tekken.bos(), 1);
  EXPECT_EQ(tekken.eos(), 2);
  EXPECT_EQ(tekken.encode("", {.add_special_tokens = true})->front(), 1);
  const std::string typed = "<s>";
  const ByteRange all{0, typed.size()};
  const auto plain = tekken.encode(typed, {.plain_ranges = std::span(&all, 1)});
  ASSERT_TRUE(plain);
  for (const TokenId id : *plain) EXPECT_GE(id, 30) << "no control token";
  EXPECT_EQ(tekken.decode(*plain, true), typed);
  EXPECT_EQ(tekken.decode(std::vector<TokenId>{1}, false), typed);
  const Tokenizer& kimi = load("tiktoken.model");
  EXPECT_EQ(kimi.token_string(kimi.bos()), "[BOS]");
  EXPECT_EQ(kimi.token_string(kimi.eos()), "[EOS]");
  EXPECT_EQ(load("tokenizer.model")
                .token_string(load("tokenizer.model").encode("", {.add_special_tokens = true})->front()),
            "<|begin_of_text|>");
  EXPECT_EQ(load("qwen.tiktoken").token_string(load("qwen.tiktoken").eos()), "<|endoftext|>");
  EXPECT_TRUE(Tokenizer::is_rank_list(read("tokenizer.model")));
  EXPECT_FALSE(Tokenizer::is_rank_list("\x0A\x0E\x0A\x05<unk>"));
  const auto other = Tokenizer::from_tiktoken("other.tiktoken", read("qwen.tiktoken"));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message().find("other.tiktoken: which rule"), std::string::npos);
}

TEST(TokenizerFixtures, DamagedRankFilesAreErrors) {
  const std::string config =
      R"("config": {"pattern": "\\s+", "default_vocab_size": 4, "default_num_special_tokens": 2})";
  for (const std::string& bad :
       {std::string("{}"), "{" + config + "}", "{" + config + R"(, "vocab": 3})",
        "{" + config + R"(, "vocab": [{"rank": 0, "token_bytes": "!!"}]})",
        "{" + config + R"(, "vocab": [{"token_bytes": "YQ=="}]})",
        "{" + config +
            R"(, "vocab": [{"rank": 0, "token_bytes": "YQ=="}, {"rank": 1, "token_bytes": "YQ=="}]})",
        "{" + config + R"(, "vocab": [], "special_tokens": [{"rank": 2, "token_str": "x"}]})",
        std::string(R"({"config": {"pattern": "(", "default_vocab_size": 4, "default_num_special_tokens": 2},
                        "vocab": []})"),
        std::string(R"({"config": {"pattern": "a", "default_vocab_size": 99999999999,
                        "default_num_special_tokens": 2}, "vocab": []})")})
    EXPECT_FALSE(Tokenizer::from_tekken(bad)) << bad;
  for (const char* bad : {"", "YQ==", "YQ== x", "YQ== 0\nYQ== 1", "YQ== -1", "YQ== 99999999", "!! 0"})
    EXPECT_FALSE(Tokenizer::from_tiktoken("qwen.tiktoken", bad)) << bad;
}

// A converter's form of gemma.json: the same pieces, merges and added tokens as GGUF's lists.
TEST(TokenizerFixtures, Gemma4FromGguf) {
  std::ifstream file(kFolder + "gemma.json");
  std::stringstream bytes;
  bytes << file.rdbuf();
  const boost::json::value json = boost::json::parse(bytes.str());
  const boost::json::object& model = json.at("model").as_object();
  std::vector<std::string> tokens, merges;
  const auto named = [&](const boost::json::value& id) -> std::string& {
    const auto at = id.to_number<std::size_t>();
    if (tokens.size() <= at) tokens.resize(at + 1);
    return tokens[at];
  };
  for (const auto& [token, id] : model.at("vocab").as_object()) named(id) = std::string(token);
  for (const boost::json::value& merge : model.at("merges").as_array())
    merges.push_back(std::string(merge.at(0).as_string()) + " " + std::string(merge.at(1).as_string()));
  for (const boost::json::value& added : json.at("added_tokens").as_array())
    named(added.at("id")) = std::string(added.at("content").as_string());
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].size() == 6 && tokens[i].starts_with("<0x")) types[i] = 6;
  for (const boost::json::value& added : json.at("added_tokens").as_array())
    types.at(added.at("id").to_number<std::size_t>()) = added.at("special").as_bool() ? 3 : 4;
  GgufVocabulary vocabulary;
  vocabulary.model = "gemma4";
  const std::vector<std::string_view> token_views(tokens.begin(), tokens.end()),
      merge_views(merges.begin(), merges.end());
  vocabulary.tokens = token_views;
  vocabulary.merges = merge_views;
  vocabulary.types = types;
  vocabulary.unk = 0, vocabulary.bos = 1, vocabulary.eos = 2;
  const auto made = Tokenizer::from_gguf(vocabulary);
  ASSERT_TRUE(made) << made.error().message();
  std::size_t count = 0;
  for_each_line("cases.jsonl", [&](const boost::json::object& entry) {
    if (entry.at("tokenizer") != "gemma") return;
    const std::string text(entry.at("text").as_string());
    const auto ids = (*made)->encode(text);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(*ids, ids_of(entry.at("ids")));
    EXPECT_EQ((*made)->decode(*ids, false), tokenizer("gemma").decode(*ids, false));
    std::vector<TokenId> wrapped = ids_of(entry.at("ids"));
    wrapped.insert(wrapped.begin(), 1);
    EXPECT_EQ(*(*made)->encode(text, {.add_special_tokens = true}), wrapped);
    ++count;
  });
  EXPECT_GT(count, 10u);
}

// A protobuf message's fields: number and bytes; of varints and fixed ones nothing is asked but fixed32 as
// bytes.
std::vector<std::pair<int, std::string>> fields_of(std::string_view bytes) {
  std::vector<std::pair<int, std::string>> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t tag = varint();
    const std::uint64_t kind = tag & 7;
    std::size_t length = kind == 5 ? 4 : kind == 1 ? 8 : 0;
    if (kind == 2) length = varint();
    const std::string value =
        kind == 0 ? std::string(1, static_cast<char>(varint())) : std::string(bytes.substr(at, length));
    at += length;
    fields.emplace_back(static_cast<int>(tag >> 3), value);
  }
  return fields;
}

// A converter's form of sp_unigram.model, as XLM-R's: the same pieces, scores and character map.
TEST(TokenizerFixtures, UnigramFromGguf) {
  std::ifstream file(kFolder + "sp_unigram.model", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::vector<std::string> tokens;
  GgufVocabulary vocabulary;
  vocabulary.model = "t5";
  vocabulary.remove_extra_whitespaces = vocabulary.add_space_prefix.emplace(true);
  for (const auto& [number, message] : fields_of(bytes.str())) {
    if (number == 1) {
      std::int32_t type = 1;
      float score = 0;
      for (const auto& [field, value] : fields_of(message)) {
        if (field == 1) tokens.push_back(value);
        if (field == 2) std::memcpy(&score, value.data(), sizeof score);
        if (field == 3) type = value[0];
      }
      vocabulary.scores.push_back(score);
      vocabulary.types.push_back(type);
    }
    if (number == 3)
      for (const auto& [field, value] : fields_of(message))
        if (field == 2) vocabulary.charsmap = value;
  }
  ASSERT_GT(vocabulary.charsmap.size(), 1000u);
  const std::vector<std::string_view> token_views(tokens.begin(), tokens.end());
  vocabulary.tokens = token_views;
  const auto id_of = [&](std::string_view token) {
    return static_cast<TokenId>(std::ranges::find(tokens, token) - tokens.begin());
  };
  vocabulary.unk = id_of("<unk>"), vocabulary.bos = id_of("<s>"), vocabulary.eos = id_of("</s>");
  vocabulary.add_bos = true;
  const auto made = Tokenizer::from_gguf(vocabulary);
  ASSERT_TRUE(made) << made.error().message();
  std::size_t count = 0;
  for_each_line("cases.jsonl", [&](const boost::json::object& entry) {
    if (entry.at("tokenizer") != "sp_unigram") return;
    const std::string text(entry.at("text").as_string());
    const std::vector<TokenId> wanted = ids_of(entry.at("ids"));
    const auto ids = (*made)->encode(text);
    ASSERT_TRUE(ids) << ids.error().message();
    EXPECT_EQ(*ids, wanted) << text;
    EXPECT_EQ((*made)->decode(*ids, false), tokenizer("sp_unigram").decode(*ids, false));
    std::vector<TokenId> pair = wanted;
    pair.insert(pair.begin(), vocabulary.bos);
    pair.push_back(vocabulary.eos);
    EXPECT_EQ(*(*made)->encode(text, {.add_special_tokens = true}), pair);
    pair.push_back(vocabulary.eos);
    pair.insert(pair.end(), wanted.begin(), wanted.end());
    pair.push_back(vocabulary.eos);
    EXPECT_EQ((*made)->encode_pair(text, text)->ids, pair);
    ++count;
  });
  EXPECT_GT(count, 10u);
}

TEST(TokenizerFixtures, DecodeAtOnceAndPieceByPiece) {
  const std::size_t count = for_each_line("decode.jsonl", [](const boost::json::object& entry) {
    const Tokenizer& subject = tokenizer(std::string(entry.at("tokenizer").as_string()));
    const std::vector<TokenId> ids = ids_of(entry.at("ids"));
    for (const bool skip : {false, true}) {
      const std::string wanted(entry.at(skip ? "skipped" : "decoded").as_string());
      EXPECT_EQ(subject.decode(ids, skip), wanted);
      IncrementalDetokenizer detokenizer(subject, skip);
      std::string joined;
      for (const TokenId id : ids) {
        const std::string piece = detokenizer.push(id);
        EXPECT_TRUE(is_valid_utf8(piece));
        joined += piece;
      }
      joined += detokenizer.finish();
      EXPECT_EQ(joined, wanted);
    }
  });
  EXPECT_GT(count, 500u);
}

}  // namespace
}  // namespace pagoda
