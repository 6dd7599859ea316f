// The warning header: one header, whatever names the client sent.
#include "api/warnings.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pagoda {
namespace {

TEST(Warnings, AreOneHeaderOfPrintableCharacters) {
  Warnings warnings;
  EXPECT_EQ(warnings.header(), "");
  warnings.add("tools.0", "a \"b\"\r\nX: é");
  warnings.add("tools.0", "a \"b\"\r\nX: é");
  warnings.add("tools.1", "c");
  EXPECT_EQ(warnings.header(), R"(299 pagoda "tools.0: a \"b\"??X: ??", 299 pagoda "tools.1: c")");
}

TEST(Warnings, AreAsManyAsAHeaderHolds) {
  Warnings warnings;
  for (int i = 0; i < 300; ++i) warnings.add("tools." + std::to_string(i), std::string(60, 'x'));
  const std::string header = warnings.header();
  EXPECT_LT(header.size(), 2100u);
  EXPECT_TRUE(header.ends_with("more\"")) << header;
  EXPECT_EQ(name_or_mark("web_search"), "web_search");
  EXPECT_EQ(name_or_mark("web search\n"), "?");
}

}  // namespace
}  // namespace pagoda
