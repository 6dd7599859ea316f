// Goal: XGrammar behind TokenConstraint keeps the interface's promises on a vocabulary of bytes and words.
// Method: random walks; rolling back and forking against walking again.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <boost/json.hpp>
#include <regex>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "constraint/xgrammar_test_support.h"

namespace pagoda {
namespace {

TEST_F(Xgrammar, AnswersHaveTheFormThatWasAskedFor) {
  const auto regex = compile(Kind::regex, "[a-c]{2}-\\d+");
  const auto choice = compile(Kind::choice, R"(["word","wor","ä\n\"q\\"])");
  const auto grammar = compile(Kind::grammar, "root ::= \"<\" inner \">\"\ninner ::= [a-z] | root");
  const auto lark = compile(Kind::grammar, "start: \"a\" /[0-9]/ \"b\"");
  const auto guidance = compile(Kind::grammar,
                                "%llguidance {}\n\nstart: a b\na[capture]: A\n\nA: \"yes\"\n     | "
                                "\"no\"\n\nb[capture]: B\nB: /[0-9]{3}/\n");
  const auto schema =
      compile(Kind::json_schema, R"({"type":"object","properties":{"n":{"type":"integer","minimum":3,
      "maximum":7},"s":{"enum":["x","word"]}},"required":["n","s"]})");
  const auto object = compile(Kind::json_object, "");
  int ended = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    EXPECT_TRUE(std::regex_match(walk(*regex, seed), std::regex("[a-c]{2}-[0-9]+")));
    const std::string chosen = walk(*choice, seed);
    EXPECT_TRUE(chosen == "word" || chosen == "wor" || chosen == "ä\n\"q\\") << chosen;
    EXPECT_TRUE(std::regex_match(walk(*grammar, seed), std::regex("<+[a-z]>+")));
    EXPECT_TRUE(std::regex_match(walk(*lark, seed), std::regex("a[0-9]b")));
    EXPECT_TRUE(std::regex_match(walk(*guidance, seed), std::regex("(yes|no)[0-9]{3}")));
    const std::string text = walk(*schema, seed);
    const boost::json::value value = boost::json::parse(text);
    EXPECT_TRUE(value.at("n").to_number<int>() >= 3 && value.at("n").to_number<int>() <= 7) << text;
    EXPECT_TRUE(value.at("s") == "x" || value.at("s") == "word") << text;
    if (const std::string free = walk(*object, seed); !free.empty()) {
      ++ended;
      EXPECT_TRUE(boost::json::parse(free).is_object()) << free;
    }
  }
  EXPECT_GT(ended, 20);
}

// Every lead byte with two continuations, and of the four bytes' third the ends: a string of one character
// takes what is UTF-8, whichever way its class was written, and nothing else.
TEST_F(Xgrammar, CharactersAreUtf8) {
  const std::pair<Kind, std::string> all[] = {
      {Kind::json_schema, R"({"type":"string","minLength":1,"maxLength":1})"},
      {Kind::json_schema, R"({"type":"string","pattern":"^[^a]$"})"},
      {Kind::json_schema, R"({"type":"string"})"},
      {Kind::regex, R"("[^"]")"},
      {Kind::regex, R"("[\x80-\U0010ffff]")"},
      {Kind::grammar, R"(root ::= "\"" [^"] "\"")"},
      {Kind::grammar, R"(root ::= "\"" [^"]* "\"")"},
      {Kind::grammar, R"(root ::= "\"" [\x80-\U0010ffff] "\"")"}};
  std::vector<std::string> texts;
  for (int lead = 0x80; lead < 0x100; ++lead) {
    texts.push_back({static_cast<char>(lead)});
    for (int second = 0x80; second < 0xc0; second += lead < 0xe0 ? 1 : 3) {
      texts.push_back({static_cast<char>(lead), static_cast<char>(second)});
      for (const int third : {0x80, 0x8f, 0xa0, 0xbf}) {
        texts.push_back({static_cast<char>(lead), static_cast<char>(second), static_cast<char>(third)});
        texts.push_back(texts.back() + '\xbf');
      }
    }
    for (const int second : {0x7f, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0})
      for (const int third : {0x7f, 0x80, 0xbf, 0xc0}) {
        texts.push_back({static_cast<char>(lead), static_cast<char>(second), static_cast<char>(third)});
        texts.push_back(texts.back() + '\x80');
      }
  }
  for (const auto& [kind, text] : all) {
    const auto factory = compile(kind, text);
    ASSERT_NE(factory, nullptr) << text;
    const bool any_number = text == R"({"type":"string"})" || text.find('*') != std::string::npos;
    int taken = 0;
    for (const std::string& character : texts) {
      const auto constraint = factory->make();
      const bool takes = std::ranges::all_of('"' + character + '"', [&](char byte) {
        return constraint->advance(static_cast<unsigned char>(byte));
      });
      const bool one = character.size() == utf8_length(character[0]);
      ASSERT_EQ(takes, is_valid_utf8(character) && (one || any_number))
          << text << ": " << boost::json::serialize(boost::json::string(character));
      taken += takes;
    }
    EXPECT_GT(taken, 500);
  }
}

TEST_F(Xgrammar, EscapesOfSurrogatesComeInPairs) {
  const auto factory = compile(Kind::json_schema, R"({"type":"string"})");
  const auto takes = [&](const std::string& text) {
    const auto constraint = factory->make();
    return std::ranges::all_of(
        text, [&](char byte) { return constraint->advance(static_cast<unsigned char>(byte)); });
  };
  for (const char* good :
       {R"("\u0000\uD7ff\ue000\uFFFF\u00e4\n")", R"("\ud83d\ude00")", R"("\uDBFF\uDFFFx")"})
    EXPECT_TRUE(takes(good)) << good;
  for (const char* bad :
       {R"("\ud800")", R"("\uDC00)", R"("\ud83dx)", R"("\ud83d\n)", R"("\ud83d\ud83d)", R"("\ud83d\u0041)"})
    EXPECT_FALSE(takes(bad)) << bad;
}

TEST_F(Xgrammar, DatesAreThoseOfTheCalendar) {
  const auto takes = [&](const TokenConstraintFactory& factory, const std::string& text) {
    const auto constraint = factory.make();
    for (const char byte : '"' + text + '"')
      if (!std::ranges::binary_search(allowed(*constraint), TokenId{byte}) || !constraint->advance(byte))
        return false;
    return std::ranges::binary_search(allowed(*constraint), FakeTokenizer::kEos);
  };
  const auto date = compile(Kind::json_schema, R"({"type":"string","format":"date"})");
  const auto time = compile(Kind::json_schema, R"({"type":"string","format":"date-time"})");
  ASSERT_NE(date, nullptr);
  ASSERT_NE(time, nullptr);
  for (const std::string day : {"2024-02-29", "2000-02-29", "0001-01-01", "0004-02-29", "1900-02-28",
                                "2021-12-31", "2021-11-30", "1000-10-10", "0100-07-31"}) {
    EXPECT_TRUE(takes(*date, day)) << day;
    EXPECT_TRUE(takes(*time, day + "T23:59:00.5+02:00")) << day;
  }
  for (const std::string day : {"2021-02-29", "1900-02-29", "0000-01-01", "0000-02-29", "2021-02-31",
                                "2021-11-31", "2021-13-01", "2021-00-10", "2021-01-00", "2021-01-32"}) {
    EXPECT_FALSE(takes(*date, day)) << day;
    EXPECT_FALSE(takes(*time, day + "T00:00:00Z")) << day;
  }
}

TEST_F(Xgrammar, SpecialTokensAreNeverSaidUnlessTheGrammarMeansThem) {
  const auto any = compile(Kind::regex, "[^b]*");
  const std::vector<TokenId> next = allowed(*any->make());
  EXPECT_FALSE(std::ranges::binary_search(next, FakeTokenizer::kSpecial));
  EXPECT_FALSE(std::ranges::binary_search(next, FakeTokenizer::kBos));
  EXPECT_TRUE(std::ranges::binary_search(next, FakeTokenizer::kWord));
  EXPECT_EQ(next.back(), FakeTokenizer::kWord);  // nothing beyond the tokenizer's ids
  const auto with = backend_->compile({.kind = Kind::regex, .text = "<x>a", .special_tokens = true});
  ASSERT_TRUE(with.has_value());
  EXPECT_EQ(allowed(*with->factory->make()), std::vector<TokenId>({'<', FakeTokenizer::kSpecial}));
}

TEST_F(Xgrammar, RollingBackAndForkingAreWalkingAgain) {
  const auto factory = compile(Kind::json_schema, R"({"type":"array","items":{"type":"object","properties":
      {"word":{"type":"string"},"b":{"type":"number"}},"required":["b"]}})");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto constraint = factory->make();
    std::vector<TokenId> said;
    for (std::uint64_t step = 0; step < 60 && !constraint->is_terminated(); ++step) {
      const std::vector<TokenId> next = allowed(*constraint);
      ASSERT_FALSE(next.empty());
      for (TokenId token = 0; token < kVocabulary; token += 7) {
        const bool takes = constraint->advance(token);
        EXPECT_EQ(takes, std::ranges::binary_search(next, token)) << token;
        if (takes) constraint->rollback(1);
      }
      EXPECT_EQ(allowed(*constraint), next);
      const auto token = next[random_bits(seed, step, 0) % next.size()];
      ASSERT_TRUE(constraint->advance(token));
      said.push_back(token);
      if (random_bits(seed, step, 1) % 4 == 0) {
        const std::size_t back = random_bits(seed, step, 2) % (said.size() + 1);
        constraint->rollback(static_cast<std::int32_t>(back));
        said.resize(said.size() - back);
      }
      if (random_bits(seed, step, 3) % 5 == 0) constraint = constraint->fork();
      auto again = factory->make();
      for (const TokenId one : said) ASSERT_TRUE(again->advance(one));
      EXPECT_EQ(again->is_terminated(), constraint->is_terminated());
      EXPECT_EQ(allowed(*again), allowed(*constraint));
    }
  }
}

// Rules that differ in what they lead to, how often it comes, what must follow, or in a bound alone.
TEST_F(Xgrammar, MasksThatGrammarsShareAreThoseOfTheGrammarAlone) {
  std::vector<std::pair<Kind, std::string>> all;
  for (const char* inner : {"[ab]", "[ac]", "\"a\" | \"word\"", "root | [ab]", "\"\" | [a-z] root"})
    for (const char* often : {"{1,3}", "{2,5}", "{2,200}", "{3,200}", "*", "+", "?"})
      for (const char* after : {"\"b\"", "\"\\\"\"", "[^b]"})
        all.emplace_back(Kind::grammar, "root ::= \"<\" x" + std::string(often) + " y \">\"\nx ::= " + inner +
                                            "\ny ::= " + after + " | [0-9]+ x " + after);
  for (const char* item :
       {R"({"type":"string"})", R"({"type":"string","maxLength":3})", R"({"type":"string","maxLength":7})",
        R"({"type":"string","minLength":2,"maxLength":7})", R"({"type":"number"})",
        R"({"type":"integer","minimum":-3,"maximum":120})", R"({"$ref":"#"})", R"({"enum":["a","word",1]})",
        R"({"type":"string","pattern":"^[ab]{2,4}$"})", R"({"type":"array","maxItems":2})", "true"})
    for (const char* form :
         {R"({"type":"array","items":%,"minItems":1})", R"({"type":"array","items":%,"maxItems":150})",
          R"({"type":"object","properties":{"a":%,"b":%},"required":["b"]})",
          R"({"type":"object","properties":{"b":%},"additionalProperties":%})"}) {
      std::string schema;
      for (const char* c = form; *c != 0; ++c) schema += *c == '%' ? std::string(item) : std::string(1, *c);
      all.emplace_back(Kind::json_schema, std::move(schema));
    }
  std::size_t steps = 0;
  for (std::size_t i = 0; i < 2 * all.size(); ++i) {  // the second time all rules are known
    const auto& [kind, text] = all[i % all.size()];
    SCOPED_TRACE(text);
    const auto shared = compile(kind, text);
    const auto own = make_xgrammar_backend(tokenizer_, kVocabulary, {FakeTokenizer::kEos})
                         ->compile({.kind = kind, .text = text});
    ASSERT_TRUE(shared != nullptr && own.has_value());
    const auto one = shared->make(), other = own->factory->make();
    for (std::uint64_t step = 0; step < 60 && !one->is_terminated(); ++step, ++steps) {
      const std::vector<TokenId> next = allowed(*one);
      ASSERT_EQ(next, allowed(*other));
      if (next.empty()) break;
      const TokenId token = next[random_bits(i, step, 0) % next.size()];
      ASSERT_TRUE(one->advance(token) && other->advance(token));
    }
  }
  EXPECT_GT(steps, all.size() * 10);
}

// The word goes beyond the end of `x`: only what is around `x` can say whether it may come.
TEST_F(Xgrammar, WhatGrammarsShareIsKeptOnce) {
  std::vector<CompiledConstraint> kept;
  const auto add = [&] {
    const std::string text =
        "root ::= \"n" + std::to_string(kept.size()) +
        "\" (x y)+\nx ::= \"abcdefghijklmnopqrstuvwxyz\" x | \"o\"\ny ::= \"rd\" x | \"z\"";
    const Result<CompiledConstraint> compiled = backend_->compile({.kind = Kind::grammar, .text = text});
    ASSERT_TRUE(compiled.has_value());
    kept.push_back(*compiled);
  };
  add();
  ASSERT_GT(kept.front().shared_bytes, 0);
  const std::int64_t before = backend_->live_shared_bytes();
  while (kept.size() < 30) add();
  // Each of the 29 adds its root's own masks, and no more.
  EXPECT_LT(backend_->live_shared_bytes() - before, 29 * kept.front().shared_bytes / 2);
}

// Several threads compile grammars that share rules, which each may be the first to come to; what may come is
// what it is when one thread compiles them in a backend of its own.
TEST_F(Xgrammar, SeveralThreadsCompileWhatOneDoes) {
  constexpr std::size_t kThreads = 4, kSchemas = 24;
  const auto text = [](std::size_t n) {
    const std::string kinds[] = {
        R"({"type":"string","maxLength":5})", R"({"type":"integer","minimum":-3,"maximum":120})",
        R"({"enum":["red","word"]})", R"({"type":"array","items":{"type":"number"}})",
        R"({"$ref":"#/$defs/node"})"};
    std::string properties;
    for (std::size_t i = 0; i < 4; ++i)
      properties +=
          concat(i == 0 ? "" : ",", "\"p", n * (i + 1), "_", i, "\":", kinds[random_bits(n, i, 3) % 5]);
    return concat(R"({"type":"object","properties":{)", properties,
                  R"(},"$defs":{"node":{"type":"object","properties":)",
                  R"({"next":{"$ref":"#/$defs/node"},"s":{"type":"string"}}}}})");
  };
  std::array<std::vector<std::shared_ptr<const TokenConstraintFactory>>, kThreads> made;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t n = 0; n < kSchemas; ++n) made[t].push_back(compile(Kind::json_schema, text(n)));
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t n = 0; n < kSchemas; ++n) {
    const auto alone = make_xgrammar_backend(tokenizer_, kVocabulary, {FakeTokenizer::kEos});
    const auto compiled = alone->compile({.kind = Kind::json_schema, .text = text(n)});
    ASSERT_TRUE(compiled.has_value());
    const auto wanted = compiled->factory->make();
    std::array<std::unique_ptr<TokenConstraint>, kThreads> got;
    for (std::size_t t = 0; t < kThreads; ++t) got[t] = made[t][n]->make();
    for (std::uint64_t step = 0; step < 60 && !wanted->is_terminated(); ++step) {
      const std::vector<TokenId> next = allowed(*wanted);
      ASSERT_FALSE(next.empty());
      const TokenId token = next[random_bits(n, step, 5) % next.size()];
      ASSERT_TRUE(wanted->advance(token));
      for (const auto& constraint : got) {
        ASSERT_EQ(allowed(*constraint), next) << text(n);
        ASSERT_TRUE(constraint->advance(token));
      }
    }
  }
}

// More kinds of masks than are kept, over thousands of tokens: few bytes of one, all of another.
class ManyWords final : public FakeTokenizer {
 public:
  std::int32_t vocab_size() const override { return 8000; }
  std::string token_bytes(TokenId id) const override {
    if (id < 260) return FakeTokenizer::token_bytes(id);
    const auto draw = [&](std::uint64_t i) { return random_bits(7, static_cast<std::uint64_t>(id), i); };
    std::string out(id % 3 == 0 ? "" : " ");
    for (std::uint64_t i = 0; i < 1 + draw(0) % 8; ++i)
      out += static_cast<char>(id % 11 != 0 ? 'a' + draw(i + 1) % 26 : '!' + draw(i + 1) % 30);
    return out;
  }
};

// Memory of a thousand schemas' masks is given back: only kept grammars take some.
TEST_F(Xgrammar, MemoryDoesNotGrowWithTheNumberOfSchemas) {
  const ManyWords words;
  const auto backend = make_xgrammar_backend(words, words.vocab_size(), {FakeTokenizer::kEos});
  std::size_t base = 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    std::string properties;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const auto draw = [&](std::uint64_t k) { return random_bits(n, i, k); };
      const std::string kinds[] = {
          concat(R"({"type":"integer","minimum":0,"maximum":)", draw(1) % 1000000 + 1, "}"),
          concat(R"({"type":"string","maxLength":)", draw(2) % 20 + 1, "}"),
          R"({"type":"boolean"})",
          concat(R"({"enum":["e)", n, "\"]}"),
          concat(R"({"type":"array","items":{"type":"number"},"maxItems":)", draw(3) % 9 + 1, "}"),
          concat(R"({"type":"string","pattern":"^[a-f]{)", draw(4) % 9 + 1, "}-", n, R"($"})")};
      properties += concat(i > 0 ? "," : "", "\"p", i, "_", n, "\":", kinds[draw(0) % 6]);
    }
    ASSERT_TRUE(backend->compile(
        {.kind = Kind::json_schema, .text = concat(R"({"type":"object","properties":{)", properties, "}}")}));
    if (n == 500) base = mallinfo2().uordblks;
  }
  EXPECT_LT(mallinfo2().uordblks, base + (std::size_t{1} << 20));
}

TEST_F(Xgrammar, WhatIsWrongIsSaidInOneLineWithoutPaths) {
  const std::pair<Kind, const char*> bad[] = {
      {Kind::regex, "("},
      {Kind::regex, "a(?=b)"},
      {Kind::regex, "(?<!a)b"},
      {Kind::regex, "\\bx"},
      {Kind::regex, "(a)\\1"},
      {Kind::regex, "\\p{L}"},
      {Kind::regex, "[z-a]"},
      {Kind::grammar, "root ::= x"},
      {Kind::grammar, "::="},
      {Kind::grammar, "root ::= (\"a\""},
      {Kind::grammar, "no lark either {"},
      {Kind::json_schema, "{"},
      {Kind::json_schema, "[]"},
      {Kind::choice, "{}"},
      {Kind::structural_tag, R"({"format":{"type":"nothing"}})"},
      {Kind::json_schema, R"({"oneOf":[{"type":"string"},{"type":"string"}]})"},
      {Kind::json_schema, R"({"type":"string","pattern":"(?=a)b"})"}};
  for (const auto& [kind, text] : bad) {
    const std::string message = problem(kind, text);
    EXPECT_FALSE(message.empty()) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.find(".cc"), std::string::npos) << message;
    EXPECT_EQ(message.find('/') == 0, false) << message;
  }
}

}  // namespace
}  // namespace pagoda
