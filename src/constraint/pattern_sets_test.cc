// Goal: strings are held to exactly what patterns say, alone and in sets. Method: random expressions against
// std::regex, over all short texts; sets against its judgement of each part.
#include "constraint/pattern_sets.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <regex>

#include "base/strings.h"
#include "constraint/xgrammar_test_support.h"

namespace pagoda {
namespace {

TEST(PatternSets, APatternThatIsFoundSomewhereIsOneOfWholeTexts) {
  const std::pair<const char*, const char*> cases[] = {{"a", "[^\\x00-\\x1f]*(a)[^\\x00-\\x1f]*"},
                                                       {"^a", "(a)[^\\x00-\\x1f]*"},
                                                       {"a$", "[^\\x00-\\x1f]*(a)"},
                                                       {"^a$|b", "(a)|[^\\x00-\\x1f]*(b)[^\\x00-\\x1f]*"},
                                                       {"^a\\$", "(a\\$)[^\\x00-\\x1f]*"},
                                                       {"^[$^|]$", "([$^|])"},
                                                       {"^(a|b)$", "((a|b))"}};
  for (const auto& [pattern, wanted] : cases) EXPECT_EQ(whole_pattern(pattern), wanted) << pattern;
  for (const char* const pattern :
       {"(^a|b)", "a$b", "(?=a)b", "\\bword", "(a)\\1", "\\p{L}", "\\s", "(", "[a", "^$"})
    EXPECT_EQ(whole_pattern(pattern), std::nullopt) << pattern;
}

TEST(PatternSets, ATextIsAPatternOfItself) {
  EXPECT_EQ(literal_pattern("a.b"), "a\\.b");
  EXPECT_EQ(literal_pattern("é"), "\\u00E9");
  EXPECT_EQ(literal_pattern("a\"b"), "");          // it is escaped in JSON, and so in no set
  EXPECT_EQ(literal_pattern("🐲"), std::nullopt);  // there is no escape for it
}

class StringSets : public Xgrammar {
 protected:
  // A random expression of a, b and c.
  std::string expression(int depth) {
    const auto pick = [&](std::uint64_t count) { return random_bits(7, drawn_++, 0) % count; };
    if (depth == 0) return std::string(1, static_cast<char>('a' + pick(3)));
    switch (pick(4)) {
      case 0:
        return expression(depth - 1) + expression(depth - 1);
      case 1:
        return concat("(", expression(depth - 1), "|", expression(depth - 1), ")");
      case 2: {
        constexpr const char* kOften[] = {"*", "+", "?", "{2}", "{0,2}", "{1,}"};
        return concat("(", expression(depth - 1), ")", kOften[pick(6)]);
      }
      default:
        return expression(depth - 1);
    }
  }
  static std::vector<std::string> short_texts() {
    std::vector<std::string> out = {""};
    for (std::size_t i = 0; out[i].size() < 4; ++i)
      for (const char c : {'a', 'b', 'c'}) out.push_back(out[i] + c);
    return out;
  }
  bool takes(const TokenConstraintFactory& factory, const std::string& text) {
    const auto constraint = factory.make();
    for (const char byte : concat("\"", text, "\""))
      if (!constraint->advance(static_cast<unsigned char>(byte))) return false;
    return constraint->advance(FakeTokenizer::kEos);
  }
  // Nothing: there is no such string.
  std::shared_ptr<const TokenConstraintFactory> compiled(const boost::json::object& schema) {
    const auto made = backend_->compile({.kind = Kind::json_schema, .text = boost::json::serialize(schema)});
    return made ? made->factory : nullptr;
  }
  std::uint64_t drawn_ = 0;
};

TEST_F(StringSets, ExpressionsAreReadAsOthersReadThem) {
  const std::vector<std::string> texts = short_texts();
  for (int i = 0; i < 150; ++i) {
    const std::string pattern = expression(2 + i % 4);
    const std::regex reference(pattern);
    const auto factory = compiled({{"type", "string"}, {"pattern", concat("^", pattern, "$")}});
    ASSERT_NE(factory, nullptr) << pattern;
    for (const std::string& text : texts)
      ASSERT_EQ(takes(*factory, text), std::regex_match(text, reference))
          << pattern << " of '" << text << "'";
  }
}

TEST_F(StringSets, AStringMatchesAllOfSomeAndNoneOfOthers) {
  const std::vector<std::string> texts = short_texts();
  for (int i = 0; i < 40; ++i) {
    const std::string first = expression(3), second = expression(2), third = expression(2);
    const std::regex one(first), two(second), three(third);
    const auto factory =
        compiled({{"type", "string"},
                  {"pattern", concat("^", first, "$")},
                  {"allOf", {{{"pattern", second}}, {{"not", {{"pattern", concat("^", third)}}}}}}});
    for (const std::string& text : texts) {
      const bool wanted = std::regex_match(text, one) && std::regex_search(text, two) &&
                          !std::regex_search(text, three, std::regex_constants::match_continuous);
      EXPECT_EQ(factory != nullptr && takes(*factory, text), wanted)
          << first << ", " << second << ", not " << third << " of '" << text << "'";
    }
  }
}

}  // namespace
}  // namespace pagoda
