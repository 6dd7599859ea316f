#include "cli/flags/parse_size.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(ParseSize, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_size("4096"), 4096);
  EXPECT_EQ(parse_size("0"), 0);
  EXPECT_EQ(parse_size("8k"), 8'000);
  EXPECT_EQ(parse_size("8K"), 8'192);
  EXPECT_EQ(parse_size("25.6k"), 25'600);
  EXPECT_EQ(parse_size("512M"), std::int64_t{512} << 20);
  EXPECT_EQ(parse_size("4GiB"), std::int64_t{4} << 30);
  EXPECT_EQ(parse_size("4GB"), 4'000'000'000);
  EXPECT_EQ(parse_size("1.5G"), std::int64_t{3} << 29);
  EXPECT_EQ(parse_size("2TiB"), std::int64_t{2} << 40);
  EXPECT_EQ(parse_size("10B"), 10);
}

TEST(ParseSize, RefusesTheRest) {
  for (const char* text : {"", "k", "-1", "4Q", "4GiBs", "4 G", " 4", "0x10", "nan", "inf", "1e3",
                           "99999999T", "16.5", "0.5B"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace pagoda
