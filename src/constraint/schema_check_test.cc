// Goal: what the compiler would leave out of a schema is refused by name; what is left means no more than
// what was asked for. Method: cases by hand; end-to-end tests hold answers against an independent validator.
#include "constraint/schema_check.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/strings.h"
#include "constraint/grammar_text.h"

namespace pagoda {
namespace {

std::string prepared(std::string_view schema) {
  const Result<boost::json::value> out = prepare_schema(boost::json::parse(schema));
  return out ? boost::json::serialize(*out) : "refused: " + out.error().message();
}

TEST(SchemaCheck, WhatIsNotHeldIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"not":{}})", "'not'"},
      {R"({"type":"array","uniqueItems":true})", "'uniqueItems'"},
      {R"({"type":"number","multipleOf":0.001})", "'multipleOf'"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"🐲"}]})", "'pattern'"},
      {R"({"type":"string","pattern":"a","minLength":3})", "'minLength' together with 'pattern'"},
      {R"x({"type":"string","not":{"pattern":"(^a|b)"}})x", "'not'"},
      {R"({"type":"string","format":"uuid","maxLength":3})", "'maxLength' together with 'format'"},
      {R"({"$ref":"https://example.org/x"})", "'$ref'"},
      {R"({"$ref":"#/$defs/a"})", "'$ref'"},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}})", "leads back"},
      {R"({"properties":{"a":{}},"patternProperties":{"^a":{}}})", "'patternProperties'"},
      {R"({"properties":{"a":{"properties":{"b":{"uniqueItems":true}}}}})", "#/properties/a/properties/b"},
      {R"({"$defs":{"a":{"not":{}}},"$ref":"#/$defs/a"})", "#/$defs/a' has 'not'"},
      {R"(false)", "is false"},
      {R"({"type":"banana"})", "banana"},
      {R"({"type":7})", "'type'"},
      {R"({"type":"string","maxLength":1000000})", "above"},
      {R"({"type":"string","maxLength":-1})", "not a whole number from 0"},
      {R"({"enum":[]})", "'enum'"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})", "requires 'a'"},
  };
  for (const auto& [schema, words] : cases)
    EXPECT_NE(prepared(schema).find(words), std::string::npos) << schema << "\n" << prepared(schema);
}

TEST(SchemaCheck, WhatIsLeftIsWhatWasMeant) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(true)", "{}"},
      {R"({"title":"x","description":"y","default":null,"type":"boolean"})", R"({"type":"boolean"})"},
      {R"({"properties":{"a":{"type":"null"}}})",
       R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":false})"},
      {R"({"type":"object"})", R"({"type":"object","additionalProperties":{}})"},
      {R"({"type":"array"})", R"({"type":"array","items":{}})"},
      {R"({"maximum":3})", R"({"type":"number","maximum":3})"},
      {R"({"type":["string","null"],"minLength":2})",
       R"({"anyOf":[{"type":"string","pattern":"^[^\"\\\\\\x00-\\x1f]{2,}$"},{"type":"null"}]})"},
      {R"({"type":"string","pattern":"ä\n"})", R"({"type":"string","pattern":"\\u00E4\\u000A"})"},
      {R"({"maxLength":0})", R"({"enum":[""]})"},
      {R"({"type":"integer","exclusiveMinimum":2.5,"maximum":9})",
       R"({"type":"integer","maximum":9,"minimum":3})"},
      {R"({"enum":[1,"a",null],"type":["string","integer"]})", R"({"enum":[1,"a"]})"},
      {R"({"const":"x"})", R"({"enum":["x"]})"},
      {R"({"allOf":[{"type":"null"}]})", R"({"type":"null"})"},
      {R"({"items":[{"type":"null"}],"additionalItems":false})",
       R"({"type":"array","prefixItems":[{"type":"null"}],"items":false})"},
      {R"({"required":["a"]})",
       R"({"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false})"},
      {R"({"definitions":{"a":{"type":"null"}},"anyOf":[{"$ref":"#/definitions/a"},{"$ref":"#"}]})",
       R"({"anyOf":[{"$ref":"#/$defs/r0"},{"$ref":"#/$defs/r1"}],"$defs":{"r1":{"anyOf":[{"$ref":"#/$defs/r0"},)"
       R"({"$ref":"#/$defs/r1"}]},"r0":{"type":"null"}}})"},
  };
  for (const auto& [schema, wanted] : cases) EXPECT_EQ(prepared(schema), wanted) << schema;
}

TEST(SchemaCheck, OfASchemaMostIsHeldWhereThatWillDo) {
  const auto most = [](std::string_view schema, std::vector<std::string> wanted) {
    std::vector<std::string> dropped;
    const auto out = prepare_most(boost::json::parse(schema), {}, dropped);
    EXPECT_EQ(dropped, wanted) << schema;
    return out ? boost::json::serialize(*out) : "refused: " + out.error().message();
  };
  EXPECT_EQ(
      most(
          R"({"properties":{"a":{"type":"array","items":{"type":"string"},"uniqueItems":true},"b":{"type":"null"}},
                    "required":["a","b"]})",
          {"uniqueItems at #/properties/a"}),
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}},"b":{"type":"null"}},)"
      R"("required":["a","b"],"additionalProperties":false})");
  EXPECT_EQ(most(R"({"oneOf":[{"type":"integer"},{"multipleOf":2}]})", {"oneOf at #"}),
            R"({"anyOf":[{"type":"integer"},{"type":"integer","multipleOf":2}]})");
  EXPECT_EQ(most(R"({"properties":{"a":{"type":"string","pattern":"a","format":"uri","maxLength":30000}}})",
                 {"#/properties/a"})
                .find("refused"),
            std::string::npos);
  EXPECT_EQ(most(R"({"type":"null"})", {}), R"({"type":"null"})");
}

TEST(SchemaCheck, LargeSchemasAreRefused) {
  std::string deep = "{}";
  for (int i = 0; i < 25; ++i) deep = concat(R"({"items":)", deep, "}");
  EXPECT_EQ(prepared(deep).find("refused"), std::string::npos);
  std::string wide = R"({"properties":{)";
  for (int i = 0; i < 400; ++i) wide += concat(i > 0 ? "," : "", "\"p", i, R"(":{"type":"null"})");
  EXPECT_NE(prepared(wide + "}}").find("optional properties"), std::string::npos);
  std::string costly = R"({"properties":{)";
  for (int i = 0; i < 10; ++i)
    costly += concat(i > 0 ? "," : "", "\"p", i, R"(":{"type":"string","maxLength":19000})");
  EXPECT_NE(prepared(costly + "}}").find("too large"), std::string::npos);
}

TEST(GrammarText, ChoicesAreWrittenOut) {
  EXPECT_EQ(*choice_grammar(R"(["a\"b","c\\\n"])"), R"(root ::= "a\"b" | "c\\\n")");
  for (const char* bad : {"[]", "[1]", "{}", "[\"\"]", "x", ""}) EXPECT_FALSE(choice_grammar(bad)) << bad;
}

TEST(GrammarText, StructuralTagsHaveTheirSchemasChecked) {
  EXPECT_EQ(
      *prepare_structural_tag(R"({"structures":[{"begin":"<a>","schema":{"type":"null"},"end":"</a>"}],)"
                              R"("triggers":["<a"]})"),
      R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<a"],"tags":[{"type":"tag",)"
      R"("begin":"<a>","content":{"type":"json_schema","json_schema":{"type":"null"},"max_whitespace_cnt":1},"end":"</a>"}]}})");
  const auto refused = prepare_structural_tag(
      R"({"format":{"type":"tag","begin":"a","content":{"type":"json_schema","json_schema":{"not":{}}},"end":"b"}})");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("'not'"), std::string::npos);
  for (const char* bad :
       {"[]", "{}", R"({"structures":[{}],"triggers":[]})", R"({"structures":{},"triggers":[]})"})
    EXPECT_FALSE(prepare_structural_tag(bad)) << bad;
}

}  // namespace
}  // namespace pagoda
