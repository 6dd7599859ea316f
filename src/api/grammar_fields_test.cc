// The forms of an answer as different clients write them.
#include "api/grammar_fields.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "base/strings.h"

namespace pagoda {
namespace {

using Kind = GrammarSpec::Kind;

std::optional<GrammarSpec> read_fields(std::string_view format, std::string* wrong = nullptr) {
  const boost::json::value body = boost::json::parse(concat(R"({"response_format":)", format, "}"));
  FieldReader fields(body.as_object());
  std::optional<GrammarSpec> spec = read_response_format(fields, "response_format");
  if (wrong != nullptr)
    *wrong = fields.ok() ? "" : fields.status().param();
  else
    EXPECT_TRUE(fields.ok()) << fields.status().message();
  return spec;
}

// OpenAI's; llama.cpp's and Together's; those of TGI, which huggingface_hub sends to any server; Fireworks'.
TEST(GrammarFields, AFormatIsWrittenInManyWays) {
  constexpr std::string_view kSchema = R"({"type":"object"})";
  for (const std::string& format :
       {concat(R"({"type":"json_schema","json_schema":{"name":"x","schema":)", kSchema, "}}"),
        concat(R"({"type":"json_schema","schema":)", kSchema, "}"),
        concat(R"({"type":"json_schema","value":{"name":"x","schema":)", kSchema, "}}"),
        concat(R"({"type":"json_object","schema":)", kSchema, "}"),
        concat(R"({"type":"json_object","value":)", kSchema, "}"),
        concat(R"({"type":"json","value":)", kSchema, "}")}) {
    const auto spec = read_fields(format);
    ASSERT_TRUE(spec) << format;
    EXPECT_EQ(spec->kind, Kind::json_schema) << format;
    EXPECT_EQ(spec->text, kSchema) << format;
  }
  for (const char* format : {R"({"type":"json_object"})", R"({"type":"json"})"})
    EXPECT_EQ(read_fields(format)->kind, Kind::json_object) << format;
  for (const char* format : {R"({"type":"regex","value":"a+"})", R"({"type":"regex","regex":"a+"})"}) {
    EXPECT_EQ(read_fields(format)->kind, Kind::regex);
    EXPECT_EQ(read_fields(format)->text, "a+");
  }
  EXPECT_EQ(read_fields(R"({"type":"grammar","grammar":"root ::= \"a\""})")->kind, Kind::grammar);
  EXPECT_FALSE(read_fields(R"({"type":"text"})"));
}

// guidance sends vLLM's old field and its new one, llama.cpp's clients an empty text.
TEST(GrammarFields, OneGrammarTwiceIsOneAndAnEmptyOneNone) {
  const auto read = [](std::string_view body, std::string& wrong) {
    const boost::json::value value = boost::json::parse(body);
    FieldReader fields(value.as_object());
    ApiContext context;
    std::optional<GrammarSpec> spec = read_grammar(fields, context);
    wrong = fields.ok() ? "" : fields.status().message();
    return spec;
  };
  std::string wrong;
  for (const char* body : {R"({"grammar":""})", R"({"guided_regex":"","guided_json":"","ebnf":""})"}) {
    EXPECT_FALSE(read(body, wrong)) << body;
    EXPECT_EQ(wrong, "") << body;
  }
  (void)read(R"({"guided_grammar":"root ::= \"a\"","structured_outputs":{"grammar":"root ::= \"a\""}})",
             wrong);
  EXPECT_NE(wrong.find("no structured output"), std::string::npos)
      << "and not that both are given: " << wrong;
  (void)read(R"({"guided_grammar":"a","structured_outputs":{"grammar":"b"}})", wrong);
  EXPECT_NE(wrong.find("cannot be combined"), std::string::npos) << wrong;
}

TEST(GrammarFields, WhatIsMissingIsNamed) {
  const auto wrong = [](std::string_view format) {
    std::string param;
    (void)read_fields(format, &param);
    return param;
  };
  EXPECT_EQ(wrong(R"({"type":"json_schema"})"), "response_format.json_schema");
  EXPECT_EQ(wrong(R"({"type":"json_schema","value":{}})"), "response_format.value.schema");
  EXPECT_EQ(wrong(R"({"type":"json_object","value":5})"), "response_format.value");
  EXPECT_EQ(wrong(R"({"type":"regex"})"), "response_format.regex");
  EXPECT_EQ(wrong(R"({"type":"grammar","grammar":""})"), "response_format.grammar");
  EXPECT_EQ(wrong(R"({"type":"xml"})"), "response_format.type");
  EXPECT_EQ(wrong("{}"), "response_format.type");
}

}  // namespace
}  // namespace pagoda
