// How much to reason, in everybody's words.
#include "api/reasoning_fields.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "base/strings.h"

namespace pagoda {
namespace {

std::string is_returned(std::string_view body, const boost::json::object& server = {}) {
  const auto value = parse_json(body);
  FieldReader fields(value->as_object());
  const ReasoningWish wish = read_reasoning_wish(fields);
  if (!fields.ok()) return fields.status().param();
  boost::json::object kwargs;
  wish.add_template_variables(kwargs, server);
  return concat(boost::json::serialize(kwargs), wish.budget ? concat(" budget ", *wish.budget) : "",
                wish.budget_is_rule ? " rule" : "", wish.is_returned ? "" : " hidden");
}

TEST(ReasoningFields, AreReadAsProvidersWriteThem) {
  const std::string_view on = R"({"enable_thinking":true,"thinking":true})",
                         off = R"({"enable_thinking":false,"thinking":false})";
  EXPECT_EQ(is_returned("{}"), "{}");
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"disabled","budget_tokens":9}})"), off);
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"enabled","budget_tokens":9}})"), concat(on, " budget 9"));
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"between_tools"}})"), on);
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"auto"}})"), "{}");
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"adaptive"}})"), on);
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"adaptive"}})", {{"enable_thinking", false}}), "{}");
  EXPECT_EQ(is_returned(R"({"reasoning":{"enabled":false}})"), off);
  EXPECT_EQ(is_returned(R"({"reasoning":{"effort":"low","max_tokens":5,"exclude":true}})"),
            R"({"reasoning_effort":"low"} budget 5 hidden)");
  EXPECT_EQ(is_returned(R"({"reasoning":{"effort":"none"}})"),
            R"({"reasoning_effort":"none","enable_thinking":false,"thinking":false})");
  EXPECT_EQ(is_returned(R"({"reasoning_effort":"high","thinking_token_budget":0})"),
            R"({"reasoning_effort":"high"} budget 0 rule)");
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"disabled"},"enable_thinking":true})"), on);
}

TEST(ReasoningFields, WhatIsWrongIsNamed) {
  EXPECT_EQ(is_returned(R"({"thinking":{"type":"sometimes"}})"), "thinking.type");
  EXPECT_EQ(is_returned(R"({"thinking":{"budget_tokens":"x"}})"), "thinking.budget_tokens");
  EXPECT_EQ(is_returned(R"({"reasoning":{"enabled":3}})"), "reasoning.enabled");
  EXPECT_EQ(is_returned(R"({"thinking":3})"), "thinking");
}

}  // namespace
}  // namespace pagoda
