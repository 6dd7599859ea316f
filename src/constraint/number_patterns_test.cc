// Goal: patterns of numbers have the numbers within the bounds and no others.
// Method: all small bounds against counting; decimals against reading them.
#include "constraint/number_patterns.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <regex>

#include "base/strings.h"

namespace pagoda {
namespace {

TEST(NumberPatterns, DecimalsLieWithinTheirBounds) {
  for (const double least : {-120.0, -9.5, -1.0, 0.0, 0.5, 3.0, 98.0})
    for (const double most : {-100.0, -1.0, 0.0, 1.0, 7.25, 10.0, 101.0, 1234.0}) {
      const auto pattern = decimals(2, least, most);
      if (!pattern) continue;
      const std::regex expression(*pattern);
      int taken = 0;
      for (int n = -12'500; n <= 130'000; n += n > 11'000 ? 97 : 1) {
        const int whole = std::abs(n) / 100, rest = std::abs(n) % 100;
        const std::string text = concat(n < 0 ? "-" : "", whole, ".", rest < 10 ? "0" : "", rest);
        const bool within = n >= least * 100 && n <= most * 100;
        const bool takes = std::regex_match(text, expression);
        if (takes) ASSERT_TRUE(within) << *pattern << " " << text;
        // Between whole bounds none is missing.
        if (least == std::floor(least) && most == std::floor(most))
          ASSERT_EQ(takes, within) << *pattern << " " << text;
        taken += takes;
      }
      EXPECT_GT(taken, 0) << *pattern;
    }
  EXPECT_TRUE(std::regex_match("-12345.6", std::regex(*decimals(1, std::nullopt, std::nullopt))));
  EXPECT_FALSE(std::regex_match("-1.5", std::regex(*decimals(1, 0, std::nullopt))));
  EXPECT_FALSE(std::regex_match("01.5", std::regex(*decimals(1, 0, std::nullopt))));
  EXPECT_EQ(decimals(2, 0.25, 0.75), std::nullopt);
}

TEST(NumberPatterns, MultiplesAreThoseNearest) {
  const auto of = [](const char* schema) {
    const auto values = multiples(boost::json::parse(schema).as_object());
    return values ? boost::json::serialize(*values) : "none";
  };
  EXPECT_EQ(of(R"({"multipleOf":5,"minimum":-7,"maximum":11})"), "[-5,0,5,10]");
  EXPECT_EQ(of(R"({"multipleOf":5,"minimum":1,"maximum":4})"), "[]");
  EXPECT_EQ(multiples(boost::json::parse(R"({"multipleOf":3,"minimum":0})").as_object())->size(), 1000u);
  EXPECT_EQ(multiples(boost::json::parse(R"({"multipleOf":3,"maximum":-1})").as_object())->back(), -3);
  EXPECT_EQ(of(R"({"multipleOf":3,"maximum":1e18})"), "none");
}

}  // namespace
}  // namespace pagoda
