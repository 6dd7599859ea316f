#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace pagoda {
namespace {

struct Output {
  std::string text;
  std::string stop;
};

// Feeds `text` in pieces of `step` bytes.
Output run(std::vector<std::string> stops, bool include, std::string_view text, std::size_t step) {
  StopMatcher matcher(std::move(stops), include);
  Output out;
  for (std::size_t at = 0; at < text.size(); at += step) {
    const StopMatcher::Outcome outcome = matcher.push(text.substr(at, step));
    out.text += outcome.text;
    if (outcome.stop_string) {
      out.stop = *outcome.stop_string;
      return out;
    }
  }
  out.text += matcher.finish();
  return out;
}

TEST(StopMatcher, SpansPieces) {
  for (std::size_t step = 1; step < 12; ++step) {
    EXPECT_EQ(run({"STOP"}, false, "abcSTOPdef", step).text, "abc");
    EXPECT_EQ(run({"STOP"}, true, "abcSTOPdef", step).text, "abcSTOP");
    EXPECT_EQ(run({"STOP"}, false, "abcSTOdef", step).text, "abcSTOdef");
    EXPECT_EQ(run({"aab"}, false, "aaaab", step).text, "aa");
    EXPECT_EQ(run({"x", "abcd"}, false, "1abcx", step).stop, "x");
    EXPECT_EQ(run({"abcd", "bc"}, false, "abcd", step).stop, "bc");  // complete first
    EXPECT_EQ(run({"bc", "abc"}, false, "abc", step).text, "");      // the longest of those that end together
    EXPECT_EQ(run({""}, false, "abc", step).text, "abc");
  }
}

TEST(StopMatcher, EmitsWhatCannotBeTheBeginning) {
  StopMatcher matcher({"\n\n"}, false);
  EXPECT_EQ(matcher.push("line\n").text, "line");
  EXPECT_EQ(matcher.push("more").text, "\nmore");
  EXPECT_EQ(matcher.push("\n").text, "");
  EXPECT_EQ(matcher.finish(), "\n");
}

TEST(StopMatcher, MatchesBeforeMinTokensArePassedOver) {
  StopMatcher matcher({"ab"}, false);
  EXPECT_EQ(matcher.push("xaby", false).text, "xaby");
  EXPECT_FALSE(matcher.push("ab", false).stop_string);
  const auto outcome = matcher.push("cab");
  EXPECT_EQ(outcome.text, "c");
  EXPECT_EQ(outcome.stop_string, "ab");
}

// Whatever the pieces: the text up to the first complete stop string, and no byte of it before.
TEST(StopMatcher, AgreesWithAPlainSearch) {
  std::mt19937_64 rng(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::string> stops(1 + rng() % 3);
    for (std::string& stop : stops)
      for (std::size_t n = 1 + rng() % 4; n > 0; --n) stop += static_cast<char>('a' + rng() % 2);
    std::string text;
    for (std::size_t n = rng() % 20; n > 0; --n) text += static_cast<char>('a' + rng() % 3);
    std::string wanted = text;
    for (std::size_t end = 1; end <= text.size() && wanted == text; ++end) {
      std::size_t longest = 0;
      for (const std::string& stop : stops)
        if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      if (longest > 0) wanted = text.substr(0, end - longest) + "|";
    }
    const Output got = run(stops, false, text, 1 + rng() % 5);
    EXPECT_EQ(got.text + (got.stop.empty() ? "" : "|"), wanted) << text;
  }
}

}  // namespace
}  // namespace pagoda
