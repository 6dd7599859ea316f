// Goal: counted repetitions mean what they say, whatever their bounds, and cost the same.
// Method: expressions against std::regex over all short texts and random long ones; at each step the mask
// against advancing by every token, on a vocabulary whose tokens reach over the ends of repetitions.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json.hpp>
#include <regex>
#include <set>

#include "base/random.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "constraint/xgrammar_test_support.h"

namespace pagoda {
namespace {

constexpr TokenId kPieces = 500;

// Bytes, and pieces of one to eight characters: letters, a two-byte one, digits, and what ends a string.
class Pieces final : public FakeTokenizer {
 public:
  std::int32_t vocab_size() const override { return kPieces; }
  std::string token_bytes(TokenId id) const override {
    if (id < 260) return FakeTokenizer::token_bytes(id);
    static const std::string kCharacters[] = {"a", "b", "c", "1", "é", "a", "b", "\"", "-", "ab"};
    const auto draw = [&](std::uint64_t i) { return random_bits(11, static_cast<std::uint64_t>(id), i); };
    std::string out;
    for (std::uint64_t i = 0; i < 1 + draw(0) % 8; ++i) out += kCharacters[draw(i + 1) % 10];
    return out;
  }
};

class Counted : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = make_xgrammar_backend(tokenizer_, kPieces, {FakeTokenizer::kEos});
    if (backend_ == nullptr) GTEST_SKIP() << "this build has no XGrammar";
  }
  CompiledConstraint compile(Kind kind, const std::string& text) {
    const Result<CompiledConstraint> compiled = backend_->compile({.kind = kind, .text = text});
    EXPECT_TRUE(compiled.has_value()) << text << ": " << (compiled ? "" : compiled.error().message());
    return compiled ? *compiled : CompiledConstraint();
  }
  static std::vector<TokenId> allowed(TokenConstraint& constraint) {
    std::vector<MaskWord> mask(mask_words(kPieces));
    (void)constraint.fill_mask(mask);
    std::vector<TokenId> out;
    for (TokenId token = 0; token < kPieces; ++token)
      if (allows(mask, token)) out.push_back(token);
    return out;
  }
  static bool takes(const TokenConstraintFactory& factory, const std::string& text) {
    const auto constraint = factory.make();
    for (const char byte : text)
      if (!constraint->advance(static_cast<unsigned char>(byte))) return false;
    return constraint->advance(FakeTokenizer::kEos);
  }
  // A random answer, each mask of it checked against every token; empty: longer than `most` tokens.
  std::string walk(const TokenConstraintFactory& factory, std::uint64_t seed, std::size_t most = 400) {
    const auto constraint = factory.make();
    std::string text;
    for (std::size_t step = 0; step < most; ++step) {
      const std::vector<TokenId> next = allowed(*constraint);
      if (next.empty()) ADD_FAILURE() << "a dead end after " << text;
      if (next.empty()) return "";
      if (step < 12 || step % 32 == 0)
        for (TokenId token = 0; token < kPieces; ++token) {
          if (token == FakeTokenizer::kEos || tokenizer_.is_special(token)) continue;
          const bool can = constraint->advance(token);
          if (can) constraint->rollback(1);
          EXPECT_EQ(can, std::ranges::binary_search(next, token))
              << text << " and then " << tokenizer_.token_bytes(token);
        }
      if (::testing::Test::HasFailure()) return "";
      TokenId token = next[random_bits(seed, step, 0) % next.size()];
      if (random_bits(seed, step, 1) % 8 == 0 && std::ranges::binary_search(next, FakeTokenizer::kEos))
        token = FakeTokenizer::kEos;
      EXPECT_TRUE(constraint->advance(token));
      if (constraint->is_terminated()) return text;
      text += tokenizer_.token_bytes(token);
    }
    return "";
  }

  Pieces tokenizer_;
  std::shared_ptr<const GrammarBackend> backend_;
};

const char* const kExpressions[] = {"[ab]{3,9}",
                                    "[ab]{7}",
                                    "[ab]{5,}c?",
                                    "(a|b{5,20})c",
                                    "a(b|c{9,20})",
                                    "(ab?){6,11}",
                                    "(a{5,7}|b){5,8}",
                                    "[ab]{0,6}[bc]{5,9}",
                                    "((a|bb){5,6}c){1,5}",
                                    "(a|b{6}|b{8})c",
                                    "b*(a{5,9}b{5,9})*",
                                    "(a{6}|a{9})b?",
                                    "[^a]{5,7}a",
                                    "(a{5,6})?b{0,300}",
                                    "(a{5,8}|[ab]{5,6}c)b",
                                    "(c|(ab){5,9})(a|b)",
                                    "(a*b){5,6}",
                                    "[abc]{200,210}",
                                    "(a{5,9}){5,9}b",
                                    "(?:a{5,6}b{5,6}){5,}",
                                    "(ab?){66,80}",
                                    "(a{5,7}|b){66,}",
                                    "(bb|a[bc]{5,6}){2,70}c"};

TEST_F(Counted, ExpressionsAreThoseOfStdRegex) {
  const auto check = [&](Kind kind, const std::string& text, const char* expression) {
    SCOPED_TRACE(text);
    const auto factory = compile(kind, text).factory;
    ASSERT_NE(factory, nullptr);
    const std::regex oracle(expression);
    for (std::uint64_t seed = 0; seed < 150; ++seed) {  // few letters, in runs: many match
      std::string text;
      const std::uint64_t length = random_bits(seed, 0, 0) % 24;
      for (std::uint64_t i = 0; text.size() < length; ++i)
        text.append(1 + random_bits(seed, i, 1) % 9, static_cast<char>('a' + random_bits(seed, i, 2) % 3));
      ASSERT_EQ(takes(*factory, text), std::regex_match(text, oracle)) << text;
    }
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const std::string text = walk(*factory, seed);
      const bool ascii =
          std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      if (ascii && !text.empty())  // std::regex reads bytes
        EXPECT_TRUE(std::regex_match(text, oracle)) << text;
    }
  };
  for (const char* const expression : kExpressions) check(Kind::regex, expression, expression);
  // Grammars have no groups that are not rules, and write alternatives as expressions do.
  for (const char* const expression : {"[ab]{3,9}", "([ab]{5,20} | [bc]{7})[c]", "[a]{5,} [b]",
                                       "[c] ([b]{0,9} [a])* [b]{0,9} [c]", "([a-b]{6,11} [c]?){2,7}"}) {
    std::string plain;
    for (const char* c = expression; *c != 0; ++c)
      if (*c != ' ') plain += *c;
    check(Kind::grammar, concat("root ::= ", expression), plain.c_str());
  }
}

TEST_F(Counted, StringsOfASchemaHaveTheirLengths) {
  const std::pair<int, int> bounds[] = {{0, 1},  {1, 1},   {0, 5},     {5, 6},
                                        {0, 17}, {30, 33}, {129, 140}, {0, 300}};
  for (const auto& [least, most] : bounds)
    for (const bool pattern : {false, true}) {
      const std::string schema =
          pattern ? concat(R"({"type":"string","pattern":"^.{)", least, ",", most, R"(}$"})")
                  : concat(R"({"type":"string","minLength":)", least, R"(,"maxLength":)", most, "}");
      SCOPED_TRACE(schema);
      const auto factory = compile(Kind::json_schema, schema).factory;
      ASSERT_NE(factory, nullptr);
      std::set<std::size_t> lengths;
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const std::string text = walk(*factory, seed);
        if (text.empty()) continue;
        const std::string inside(boost::json::parse(text).as_string());
        std::size_t length = 0;
        for (std::size_t at = 0; at < inside.size(); at += utf8_length(inside[at])) ++length;
        EXPECT_GE(length, static_cast<std::size_t>(least)) << text;
        EXPECT_LE(length, static_cast<std::size_t>(most)) << text;
        lengths.insert(length);
      }
      EXPECT_FALSE(lengths.empty());
      for (const int length : {least - 1, least, most, most + 1}) {
        if (length < 0) continue;
        std::string text = "\"";
        for (int i = 0; i < length; ++i) text += "é";
        EXPECT_EQ(takes(*factory, text + "\""), length >= least && length <= most) << length;
      }
    }
}

TEST_F(Counted, WhatAStringCannotHoldIsNotRepeatedIntoIt) {
  for (const char* const pattern : {"^[^x]{5,90}$", "^(a.){5,9}$", "^(.{6}-)+$"}) {
    const auto factory =
        compile(Kind::json_schema, concat(R"({"type":"string","pattern":")", pattern, "\"}")).factory;
    ASSERT_NE(factory, nullptr);
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      if (const std::string text = walk(*factory, seed); !text.empty())
        EXPECT_TRUE(boost::json::parse(text).is_string()) << text;
  }
  for (const char* const pattern : {R"(^\"{9}$)", R"(^(a\"){9}$)"})
    EXPECT_FALSE(backend_->compile(
        {.kind = Kind::json_schema,
         .text = boost::json::serialize(boost::json::value{{"type", "string"}, {"pattern", pattern}})}))
        << pattern;
}

TEST_F(Counted, BoundsCostNothing) {
  const auto bytes = [&](const std::string& schema) {
    const CompiledConstraint compiled = compile(Kind::json_schema, schema);
    return compiled.bytes + compiled.shared_bytes;
  };
  const std::int64_t small = bytes(R"({"type":"string","minLength":5,"maxLength":9})");
  for (const char* const schema :
       {R"({"type":"string","maxLength":20000})", R"({"type":"string","minLength":19990,"maxLength":20000})",
        R"({"type":"string","minLength":20000})", R"({"type":"string","pattern":"^[a-z0-9]{1,20000}$"})",
        R"({"type":"string","pattern":"^([a-z]{1,200}[.]){1,2000}$"})"})
    EXPECT_LT(bytes(schema), 3 * small) << schema;
}

// The bound is one of work: the second time is as the first.
TEST_F(Counted, AGrammarThatIsRefusedStaysRefused) {
  std::string costly;
  for (int i = 0; i < 300; ++i) costly += "(a|a)*";
  for (int i = 0; i < 2; ++i) {
    const auto compiled = backend_->compile({.kind = Kind::regex, .text = costly});
    ASSERT_FALSE(compiled);
    EXPECT_NE(compiled.error().message().find("too long"), std::string::npos) << compiled.error().message();
  }
}

TEST_F(Counted, WhatIsGivenUpEnds) {
  const std::atomic<bool> given_up = true;
  EXPECT_FALSE(backend_->compile({.kind = Kind::regex, .text = "(.*a.*b){5}"}, &given_up));
}

// Bounds on each level would multiply, and levels within levels be made again for each.
TEST_F(Counted, NestedBoundsEndSoon) {
  std::string nested = "a";
  for (int i = 0; i < 40; ++i) nested = concat("(", nested, "b){1,90}");
  const auto factory = compile(Kind::regex, nested).factory;
  ASSERT_NE(factory, nullptr);
  EXPECT_TRUE(takes(*factory, concat("a", std::string(40, 'b'))));
  EXPECT_FALSE(takes(*factory, concat("a", std::string(39, 'b'))));
}

}  // namespace
}  // namespace pagoda
