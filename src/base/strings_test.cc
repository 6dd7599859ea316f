#include "base/strings.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace pagoda {
namespace {

TEST(Concat, JoinsTextAndNumbers) {
  EXPECT_EQ(concat("a", std::string("b"), 'c', 1, std::int64_t{-2}, 0.5, true), "abc1-20.51");
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(concat(std::string_view("x\0y", 3)).size(), 3u);
}

TEST(Fixed, RoundsToDigits) {
  EXPECT_EQ(fixed(1.005, 1), "1.0");
  EXPECT_EQ(fixed(-2.55, 0), "-3");
  EXPECT_EQ(fixed(12345.678, 2), "12345.68");
  // The largest double has 309 digits before the point.
  EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 2).size(), 312u);
}

}  // namespace
}  // namespace pagoda
