#include "base/plain_numbers.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(PlainNumbers, AreAsPeopleWriteThem) {
  EXPECT_EQ(plain_numbers(R"({"a":6.868185231006473E2,"b":0E0,"c":-1.5E-3,"d":[12,1E1]})"),
            R"({"a":686.8185231006473,"b":0,"c":-0.0015,"d":[12,10]})");
  EXPECT_EQ(plain_numbers(R"({"1E1":"a \"2E2\" \\","x":true})"), R"({"1E1":"a \"2E2\" \\","x":true})");
  EXPECT_EQ(plain_numbers("1E300"), "1e+300");
  EXPECT_EQ(plain_numbers("9007199254740993"), "9007199254740993");
  EXPECT_EQ(plain_numbers("1E999"), "1E999");
  EXPECT_EQ(plain_numbers(""), "");
}

}  // namespace
}  // namespace pagoda
