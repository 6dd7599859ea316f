#include "api/json.h"

#include <gtest/gtest.h>

#include <charconv>
#include <limits>

namespace pagoda {
namespace {

TEST(ParseJson, AcceptsWhatIsValid) {
  for (const char* text :
       {"{}", " [1, 2.5, -3e2] ", R"({"a":{"b":[null,true,"\u00e9\ud83d\ude00"]}})", "18446744073709551615"})
    EXPECT_TRUE(parse_json(text).has_value()) << text;
}

TEST(ParseJson, RefusesWhatIsNot) {
  std::string deep(129, '['), many = "{";
  deep.append(129, ']');
  for (std::size_t i = 0; i <= kMaxJsonKeys; ++i) many += "\"" + std::to_string(i) + "\":0,";
  many.back() = '}';
  const std::string bad[] = {"",
                             "{",
                             "{\"a\":1,}",
                             "{\"a\":NaN}",
                             "{\"a\":Infinity}",
                             "{\"a\":01}",
                             "{'a':1}",
                             "{} {}",
                             "{\"a\":1,\"a\":2}",
                             "{\"a\":{\"b\":1,\"b\":1}}",
                             "[{\"a\":{\"a\":1},\"b\":0,\"a\":{}}]",
                             "\"\xff\"",
                             "\"\xc3\"",
                             "\"\xed\xa0\x80\"",
                             "\"\\ud800\"",
                             "\"a\nb\"",
                             "// c\n1",
                             deep,
                             many,
                             std::string("{\"a\0\":1", 6)};
  for (const std::string& text : bad) {
    const auto value = parse_json(text);
    ASSERT_FALSE(value.has_value()) << text.substr(0, 40);
    EXPECT_EQ(value.error().code(), StatusCode::invalid_argument);
    EXPECT_EQ(value.error().reason(), "invalid_json");
  }
}

// As Python's parser does with bytes.
TEST(ParseJson, ABodyMayBeginWithAByteOrderMark) {
  EXPECT_TRUE(parse_json_body("\xEF\xBB\xBF{}"));
  EXPECT_FALSE(parse_json_body("\xEF\xBB\xBF\xEF\xBB\xBF{}"));
  EXPECT_FALSE(parse_json_body("\xEF\xBB{}"));
}

TEST(ParseJson, WhatSchemasNeedIsAllowed) {
  EXPECT_TRUE(parse_json(std::string(128, '[') + std::string(128, ']')).has_value());
  std::string many = "{";
  for (int i = 0; i < 100'000; ++i) many += "\"" + std::to_string(i) + "\":0,";
  many.back() = '}';
  EXPECT_TRUE(parse_json(many).has_value());
  const auto deep = parse_json(std::string(129, '[') + std::string(129, ']'));
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message().find("deeper than 128 levels"), std::string::npos);
}

TEST(ParseJson, TheSameKeyInDifferentObjectsIsNoDuplicate) {
  EXPECT_TRUE(parse_json(R"([{"a":1},{"a":{"a":[{"a":2}]}}])").has_value());
}

TEST(Utf8, BrokenBytesAreReplacedAndCharactersCounted) {
  EXPECT_EQ(to_valid_utf8("a\xc3\xa9"), "a\xc3\xa9");
  EXPECT_EQ(to_valid_utf8("a\xff"
                          "b\xe2\x82"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(count_characters("a\xc3\xa9\xf0\x9f\x98\x80"), 3);
}

TEST(JsonWriter, WritesWhatTheParserReadsBack) {
  std::string out;
  JsonWriter writer(out);
  const std::string odd("q\"\\\n\t\x01\xc3\xa9/", 9);
  writer.begin_object().key("s").string(odd).key("i").integer(-7).key("b").boolean(true).key("n").null();
  writer.key("a").begin_array().begin_object().end_object().integer(1).end_array();
  writer.key("ids").integers(std::vector<std::int32_t>{1, 2}).end_object();
  const auto value = parse_json(out);
  ASSERT_TRUE(value.has_value()) << out;
  EXPECT_EQ(value->at("s").as_string(), odd);
  EXPECT_EQ(value->at("a").as_array().size(), 2u);
  EXPECT_EQ(value->at("ids").as_array()[1].as_int64(), 2);
}

// Nine significant digits are what a float needs to survive being printed.
TEST(JsonWriter, FloatsReadBackExactly) {
  std::uint32_t bits = 1;
  for (int i = 0; i < 20'000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    float number;
    std::memcpy(&number, &bits, sizeof number);
    if (!std::isfinite(number)) continue;
    std::string out;
    JsonWriter(out).float32(number);
    float back = 0;
    std::from_chars(out.data(), out.data() + out.size(), back);
    ASSERT_EQ(std::memcmp(&back, &number, sizeof back), 0) << out;
  }
}

}  // namespace
}  // namespace pagoda
