// Regex and the hand-written splitters. What Oniguruma matches is checked by the fixtures of whole
// tokenizers; here the rewriting, and known_split against the patterns it stands for.
#include "tokenizer/regex.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "tokenizer/pre_tokenizer.h"

namespace pagoda {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  if (!regex) return {regex.error().message()};
  std::vector<std::string> out;
  EXPECT_TRUE(regex->for_each_part(text, [&](std::size_t begin, std::size_t end, bool is_match) {
    if (is_match) out.emplace_back(text.substr(begin, end - begin));
  }));
  return out;
}

using Strings = std::vector<std::string>;

TEST(Regex, ReadsRubySyntax) {
  EXPECT_EQ(matches("[a-z&&[^b-d]]+", "abcde"), (Strings{"a", "e"}));
  EXPECT_EQ(matches("[^a-z&&[^b]]+", "abcA1"), (Strings{"b", "A1"}));
  EXPECT_EQ(matches("[a[0-2]]+", "xa01b3"), (Strings{"a01"}));
  EXPECT_EQ(matches("[^a[0-2]]+", "xa01b3"), (Strings{"x", "b3"}));
  EXPECT_EQ(matches("\\h+", "12fGz"), (Strings{"12f"}));
  EXPECT_EQ(matches("(?m:a.b)", "a\nb"), (Strings{"a\nb"}));
  EXPECT_EQ(matches("a.b", "a\nb"), Strings{});
  EXPECT_EQ(matches("^b", "a\nb"), Strings{"b"});
  EXPECT_EQ(matches("\\s", "\u180e\u00a0"), Strings{"\u00a0"});
  EXPECT_EQ(matches("\\u4e2d", "\u4e2d"), Strings{"\u4e2d"});
  EXPECT_EQ(matches("\\p{Han}+", "\u4e2d\u3001\u3042"), Strings{"\u4e2d"});
  EXPECT_EQ(matches("\\p{^L}+", "ab12c"), Strings{"12"});
  EXPECT_EQ(matches("(?:ab){2}+", "abababab"), Strings{"abababab"});  // a repeated repeat, not possessive
  EXPECT_EQ(matches("[[:punct:]]+", "a+.b"), Strings{"+."});
}

TEST(Regex, RefusesByName) {
  const auto refused = [](std::string_view pattern) {
    const auto regex = Regex::compile(pattern);
    return regex ? std::string() : regex.error().message();
  };
  EXPECT_NE(refused("\\p{In_Foo}"), "");
  EXPECT_NE(refused("[[:foo:]]").find("foo"), std::string::npos);
  EXPECT_NE(refused("("), "");
  EXPECT_NE(refused("["), "");
  EXPECT_NE(refused("a\\"), "");
}

TEST(Regex, BacktrackingIsBounded) {
  const auto regex = Regex::compile("(a*)*(a*)*(a*)*b\\1");
  ASSERT_TRUE(regex);
  std::size_t begin = 0, end = 0;
  EXPECT_NE(regex->find(std::string(40, 'a'), 0, begin, end), Regex::Match::found);
}

TEST(Regex, LiteralMatchesItself) {
  for (const std::string text : {".", "a+b", "[x]", "\\", "{2}", "\n", " ", "#", "-", "\u4e2d", "^$"}) {
    const auto regex = Regex::literal(text);
    ASSERT_TRUE(regex) << text << regex.error().message();
    std::size_t begin = 0, end = 0;
    ASSERT_EQ(regex->find("ab" + text, 2, begin, end), Regex::Match::found) << text;
    EXPECT_EQ(end - begin, text.size());
  }
}

class Pieces final : public PieceSink {
 public:
  void piece(const Piece& piece) override { list.emplace_back(piece.text); }
  Strings list;
};

// Cuts texts of up to so many of `bits`, drawn at random, by hand-written code and by the regular expression.
void expect_cuts_like(const PreTokenizerPtr& known, const std::string& pattern, const Strings& bits,
                      std::size_t most, int rounds) {
  ASSERT_TRUE(known) << pattern;
  auto regex = Regex::compile(pattern);
  ASSERT_TRUE(regex);
  const PreTokenizerPtr plain = make_split(*std::move(regex), SplitBehavior::isolated, false);
  std::mt19937_64 rng(7);
  for (int i = 0; i < rounds; ++i) {
    std::string text;
    for (std::size_t n = 1 + rng() % most; n > 0; --n) text += bits[rng() % bits.size()];
    Pieces a, b;
    EXPECT_TRUE(known->split({text, true}, a));
    EXPECT_TRUE(plain->split({text, true}, b));
    ASSERT_EQ(a.list, b.list) << pattern << "\n" << text;
  }
}

TEST(KnownSplit, CutsLikeItsPattern) {
  const std::string kContractions[] = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
                                       "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"};
  Strings patterns = {std::string(kGpt2Pattern)};
  for (const std::string& contractions : kContractions) {
    for (const char* digits : {"\\p{N}", "\\p{N}{1,3}"})
      patterns.push_back(contractions + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + digits +
                         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
    patterns.push_back(contractions +
                       "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
                       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  }
  const Strings kBits = {"a",          "Ab",     "'s",     "'LL", "'\u017f", "'",      "1",
                         "234",        "\u00bd", " ",      "  ",  "\n",      "\r\n",   "\t",
                         "\u00a0",     "\u3000", "!",      "?!",  "\u4e2d",  "\u0301", "\u0939\u093f",
                         "\U0001F642", "_",      "\u200d", "e"};
  for (const std::string& pattern : patterns)
    expect_cuts_like(make_known_split(pattern), pattern, kBits, 8, 3000);
  EXPECT_FALSE(make_known_split("\\p{L}+"));
}

TEST(DigitGroups, CutsLikeItsPattern) {
  const std::string pattern(kDigitGroupsPattern);
  expect_cuts_like(make_known_split(pattern), pattern,
                   {"1", "23", "456", "\u00bd", "a", " ", "\u0663", "\u2167", "\u00b2", "\U0001d7d8"}, 10,
                   5000);
  // Empty matches are treated differently everywhere.
  EXPECT_FALSE(make_known_split(pattern, SplitBehavior::removed, true));
}

}  // namespace
}  // namespace pagoda
