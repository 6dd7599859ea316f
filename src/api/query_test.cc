#include "api/query.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(PercentDecode, RefusesWhatIsMalformed) {
  EXPECT_EQ(percent_decode("a%2Fb%20"), "a/b ");
  for (const char* bad : {"%", "%2", "%zz", "%00", "a%-1"})
    EXPECT_EQ(percent_decode(bad), std::nullopt) << bad;
}

TEST(Query, IsReadInOrderAndWhole) {
  using Items = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(parse_query(""), Items{});
  EXPECT_EQ(parse_query("a=1&b=%2F&&a=2&c&=d&e=f=g"),
            (Items{{"a", "1"}, {"b", "/"}, {"a", "2"}, {"c", ""}, {"", "d"}, {"e", "f=g"}}));
  EXPECT_EQ(parse_query("%61=%62"), (Items{{"a", "b"}}));
  EXPECT_EQ(parse_query("a=1&b=%2"), std::nullopt);
}

TEST(Query, GivesTheFirstValueOfAName) {
  EXPECT_EQ(query_value("stream=true&starting_after=7&starting_after=8", "starting_after"), "7");
  EXPECT_EQ(query_value("a&b=", "a"), "");
  EXPECT_EQ(query_value("ab=1", "a"), std::nullopt);
  EXPECT_EQ(query_value("a=1&b=%zz", "a"), std::nullopt);
}

}  // namespace
}  // namespace pagoda
