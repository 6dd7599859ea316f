// Goal: the pattern that is left has the lengths that were asked for, and no text that the given one has not.
// Method: cases by hand; and all texts of three letters up to nine characters, against std::regex.
#include "constraint/pattern_lengths.h"

#include <gtest/gtest.h>

#include <regex>

namespace pagoda {
namespace {

TEST(PatternLengths, ExactlyWhereItCan) {
  const auto of = [](const char* pattern, int least, int most) {
    return pattern_of_lengths(pattern, least, most).value_or("nothing");
  };
  EXPECT_EQ(of("^[a-z]+$", 1, 10), "^([a-z]{1,10})$");
  EXPECT_EQ(of("^[a-z]*$", 3, 10), "^([a-z]{3,10})$");
  EXPECT_EQ(of("^[A-Z]{3}-[0-9]{4}$", 1, 8), "^[A-Z]{3}-[0-9]{4}$");  // has them
  EXPECT_EQ(of("^#[0-9a-f]+$", 4, 7), "^(#[0-9a-f]{3,6})$");
  EXPECT_EQ(of("^ab$", 3, 9), "nothing");
  EXPECT_EQ(of("^abc$", 0, 2), "nothing");
  for (const char* strange :
       {"(?=a)b+", "(a)\\1+", "a^b+", "\\bx+", "(a", "a**", "[a", "a{2,1}", "(?i)a+", "\\p{L}+"})
    EXPECT_EQ(of(strange, 0, 3), "nothing") << strange;
}

TEST(PatternLengths, WhatIsLeftWasThere) {
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; i < texts.size() && texts.size() < 12'000; ++i)
    for (const char c : {'a', 'b', '.'}) texts.push_back(texts[i] + c);
  int kept = 0;
  for (const char* const pattern :
       {"^[ab]+([.][ab]+)*$", "(a|bb)*[.]?", "(ab?){2,}", "a*b*[.]*", "((a|b)+[.])+", "(a{2}|b{3}){1,9}",
        "a(b|[.]{2,9})+", "[^a]{1,4}a?", "(a*b){0,3}[.]+?", "\\w+[.]\\w{2,}"}) {
    const std::regex given(pattern);
    for (int least = 0; least <= 6; ++least)
      for (int most = least; most <= 7; ++most) {
        const auto left = pattern_of_lengths(pattern, least, most);
        if (!left) continue;
        const std::regex narrowed(*left);
        int matches = 0;
        for (const std::string& text : texts) {
          if (!std::regex_match(text, narrowed)) continue;
          ++matches;
          ASSERT_TRUE(std::regex_match(text, given)) << pattern << " " << *left << " " << text;
          ASSERT_TRUE(std::cmp_greater_equal(text.size(), least) && std::cmp_less_equal(text.size(), most))
              << pattern << " " << *left << " " << text;
        }
        EXPECT_GT(matches, 0) << pattern << " " << *left << " " << least << " " << most;
        ++kept;
      }
  }
  EXPECT_GT(kept, 200);
}

}  // namespace
}  // namespace pagoda
