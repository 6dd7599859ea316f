#include "base/strict_json.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(StrictJson, IsTheSameWhereNothingIsOdd) {
  const std::string text = R"({"a": [1, -2.5e6, "x,]\"NaN"], "b": {}})";
  EXPECT_EQ(strict_json(text), text);
}

TEST(StrictJson, TakesNumbersAsPythonWritesThem) {
  EXPECT_EQ(strict_json(R"({"a":NaN,"b":[-Infinity, Infinity]})"),
            R"({"a":"NaN","b":["-Infinity", "Infinity"]})");
  EXPECT_EQ(strict_json(R"("a \" NaN")"), R"("a \" NaN")");
}

TEST(StrictJson, DropsWhatEditorsLeave) {
  EXPECT_EQ(strict_json("\xEF\xBB\xBF{\"a\": [1, 2 ,\n], }"), "{\"a\": [1, 2 \n] }");
  EXPECT_EQ(strict_json("[1,,2]"), "[1,,2]");  // stays wrong
  EXPECT_EQ(strict_json("\"\\"), "\"\\");
  EXPECT_EQ(strict_json("[1,"), "[1,");
}

TEST(StrictJson, GivesPythonItsNumbersBack) {
  const std::string text = R"({"a":NaN,"b":[-Infinity,Infinity],"c":"no NaN"})";
  EXPECT_EQ(python_json(strict_json(text)), text);
}

}  // namespace
}  // namespace pagoda
