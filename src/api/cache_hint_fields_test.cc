// Goal: hints of all protocols are read, wherever they stand, and what is wrong is named.
#include "api/cache_hint_fields.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace pagoda {
namespace {

struct ReadHint {
  CacheHint hint;
  Status status;
};

ReadHint read(std::string_view body) {
  const boost::json::value value = boost::json::parse(body);
  FieldReader fields(value.as_object());
  ReadHint out{.hint = read_cache_hint(fields), .status = {}};
  out.status = fields.status();
  return out;
}

TEST(CacheHintFields, AreReadInTheWordsOfEveryProtocol) {
  const CacheHint own =
      read(R"({"cache_hint":{"session":"s","ttl":60,"priority":80,"pin_until":1e11}})").hint;
  EXPECT_EQ(own.session, "s");
  EXPECT_EQ(own.ttl_s, 60);
  EXPECT_EQ(own.priority, 80);
  EXPECT_EQ(own.pin_s, 24 * 3600) << "a day at most";
  EXPECT_EQ(read(R"({"cache_hint":{"pin_until":1}})").hint.pin_s, 0) << "is over";

  const CacheHint openai = read(R"({"prompt_cache_key":"k","prompt_cache_retention":"24h"})").hint;
  EXPECT_EQ(openai.session, "k");
  EXPECT_EQ(openai.ttl_s, 24 * 3600);
  EXPECT_EQ(read(R"({"prompt_cache_retention":"in_memory"})").hint.ttl_s, 0);

  EXPECT_EQ(read(R"({"cache_control":{"type":"ephemeral"}})").hint.ttl_s, 300);
  EXPECT_EQ(read(R"({"cache_control":null,"system":"text"})").hint.ttl_s, 0);
  const std::string_view blocks = R"({"system":[{"text":"a","cache_control":{"type":"ephemeral"}}],
    "tools":[{"name":"f"},{"name":"g","cache_control":{"type":"ephemeral","ttl":"5m"}}],
    "messages":[{"content":"x"},{"content":[{"type":"tool_result","content":[
      {"text":"y","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}]})";
  EXPECT_EQ(read(blocks).hint.ttl_s, 3600) << "the longest of all";
  EXPECT_EQ(read(R"({"prompt_cache_key":"k","cache_hint":{"session":"s"}})").hint.session, "s");
}

TEST(CacheHintFields, WhatIsWrongIsNamed) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"cache_hint":5})", "cache_hint"},
      {R"({"cache_hint":{"session":""}})", "cache_hint.session"},
      {R"({"cache_hint":{"ttl":0}})", "cache_hint.ttl"},
      {R"({"cache_hint":{"priority":101}})", "cache_hint.priority"},
      {R"({"cache_hint":{"pin_until":-1}})", "cache_hint.pin_until"},
      {R"({"cache_hint":{"tll":5}})", "cache_hint.tll"},
      {R"({"prompt_cache_key":5})", "prompt_cache_key"},
      {R"({"prompt_cache_retention":"1h"})", "prompt_cache_retention"},
      {R"({"cache_control":{"type":"eternal"}})", "cache_control.type"},
      {R"({"cache_control":{}})", "cache_control.type"},
      {R"({"messages":[{"content":[{"cache_control":{"type":"ephemeral","ttl":"2h"}}]}]})",
       "messages.0.content.0.cache_control.ttl"},
      {R"({"tools":[{"cache_control":"ephemeral"}]})", "tools.0.cache_control"},
  };
  for (const auto& [body, param] : cases) {
    const ReadHint got = read(body);
    EXPECT_FALSE(got.status.ok()) << body;
    EXPECT_EQ(got.status.param(), param) << body;
  }
}

}  // namespace
}  // namespace pagoda
