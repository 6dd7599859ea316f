// Goal: schemas as programs write them are held: documents that satisfy them can be written, others cannot.
// Method: cases by hand, in the shapes of Pydantic, Go and OpenAPI; each document is fed byte by byte.
#include <gtest/gtest.h>

#include "constraint/xgrammar_test_support.h"

namespace pagoda {
namespace {

struct Case {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

const Case kCases[] = {
    // A discriminated union, whose tag has a default and so is not required.
    {R"({"$defs":{"Cat":{"type":"object","properties":{"kind":{"const":"cat","default":"cat"},"lives":{"type":"integer"}},
        "required":["lives"]},"Dog":{"type":"object","properties":{"kind":{"const":"dog","default":"dog"}}}},
        "discriminator":{"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}]})",
     {R"({"kind":"cat","lives":9})", R"({"kind":"dog"})"},
     {R"({"kind":"dog","lives":9})", R"({"lives":9})", R"({})", R"({"kind":"cow"})"}},
    {R"({"oneOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]},{"type":"array","items":{"type":"null"}}]})",
     {R"({"a":null})", "[null,null]", "[]"},
     {"{}", "null"}},
    {R"({"oneOf":[{"type":"integer","maximum":3},{"type":"integer","minimum":7}]})",
     {"3", "-12", "7", "70"},
     {"4", "6"}},
    {R"({"oneOf":[{"required":["a"],"properties":{"a":{"type":"null"}}},{"required":["b"],"properties":{"b":{"type":"null"}}}]})",
     {R"({"a":null})", R"({"b":null})"},
     {R"({"a":null,"b":null})", "{}"}},
    {R"({"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}],"$defs":{"N":{"type":"object","properties":{"next":{"oneOf":
        [{"$ref":"#/$defs/N"},{"type":"null"}]}},"required":["next"]}}})",
     {"null", R"({"next":null})", R"({"next":{"next":null}})"},
     {R"({"next":{}})"}},
    // One that leads back to itself.
    {R"({"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"k":{"const":"n"},"next":{"oneOf":[{"$ref":"#/$defs/N"},
        {"$ref":"#/$defs/L"}]}},"required":["next"]},"L":{"type":"object","properties":{"k":{"const":"l"}}}}})",
     {R"({"next":{"k":"l"}})", R"({"next":{"k":"n","next":{"k":"l"}}})"},
     {R"({"next":{}})", R"({"next":{"k":"n"}})"}},
    {R"({"type":"array","items":{"type":"null"}})",
     {"[]", "[null]", "[null,null]", "[ null , null ]"},
     {"[null,]"}},
    // Said together.
    {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
        {"properties":{"a":{"minimum":5,"maximum":6},"b":{"type":"null"}},"required":["b"]}]})",
     {R"({"a":5,"b":null})"},
     {R"({"a":4,"b":null})", R"({"a":5})"}},
    {R"({"$ref":"#/$defs/base","properties":{"b":{"type":"null"}},"unevaluatedProperties":false,
        "$defs":{"base":{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]}}})",
     {R"({"a":null,"b":null})", R"({"a":null})"},
     {R"({"b":null})", R"({"a":null,"c":1})"}},
    {R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"null"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
     {R"({"a":true})", R"({"b":null})", R"({"a":true,"b":null})"},
     {"{}"}},
    {R"({"enum":[1,"a",null,7],"type":["integer","null"],"maximum":5})", {"1", "null"}, {"7", R"("a")"}},
    {R"({"type":"object","properties":{"kind":{"enum":["x","y"]},"n":{"type":"integer"}},"required":["kind"],
        "if":{"properties":{"kind":{"const":"x"}}},"then":{"required":["n"]}})",
     {R"({"kind":"x","n":1})", R"({"kind":"y"})"},
     {R"({"kind":"x"})", R"({"n":1})"}},
    {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"dependentRequired":{"a":["b"]}})",
     {R"({"a":null,"b":null})", R"({"b":null})"},
     {R"({"a":null})"}},
    {R"({"not":{"type":["object","array","string","number"]}})", {"null", "true"}, {"1", "[]"}},
    // Go's nothing.
    {R"({"type":"object","properties":null,"required":null})", {"{}"}, {"[]", "null"}},
    {R"({"type":"object","properties":{"a":{"type":"null"}},"required":null})",
     {"{}", R"({"a":null})"},
     {R"({"a":1})"}},
    // Strings.
    {R"({"type":"string","format":"uri","minLength":1,"maxLength":2083})",
     {R"("http://a.b/c?d=e")", R"("https://example.com")"},
     {R"("")", R"("a b")"}},
    {R"({"type":"string","pattern":"^[a-z]+$","minLength":1,"maxLength":10})",
     {R"("a")", R"("abcdefghij")"},
     {R"("")", R"("abcdefghijk")", R"("A")"}},
    {R"({"type":"string","format":"date","maxLength":10})", {R"("2024-02-29")"}, {R"("2023-02-29")"}},
    // Numbers.
    {R"({"type":"integer","minimum":0,"maximum":100,"multipleOf":5})", {"0", "5", "100"}, {"3", "105", "-5"}},
    {R"({"type":"number","multipleOf":0.01})", {"0.07", "12", "-3.5"}, {"0.001", "1e-3"}},
    {R"({"type":"number","multipleOf":0.01,"minimum":0,"maximum":20})",
     {"0.07", "19.99", "20"},
     {"20.01", "-1", "0.071"}},
    {R"({"type":"number","multipleOf":1.5})", {"3", "-6"}, {"1", "2.5"}},
    // Lists.
    {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1})",
     {R"(["b","a"])", R"(["a","b","c"])", R"(["c"])"},
     {R"(["a","a"])", "[]", R"(["a","b","a"])"}},
    {R"({"type":"array","items":{"$ref":"#/$defs/E"},"uniqueItems":true,"$defs":{"E":{"enum":[1,2,3,4,5,6,7,8,9]}}})",
     {"[1,4,9]", "[]"},
     {"[4,4]"}},
    {R"({"type":"array","contains":{"type":"integer"},"items":{"type":["integer","null"]}})",
     {"[1,null]", "[3]"},
     {"[]", "[null]"}},
    {R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"maxItems":1})",
     {"[null]"},
     {"[null,true]"}},
    {R"({"type":"array","items":{"type":"integer","minimum":1,"maximum":3},"uniqueItems":true})",
     {"[]", "[3,1]"},
     {"[1,1]", "[4]"}},
    {R"({"type":"array","prefixItems":[{"type":"boolean"},{"type":"boolean"}],"uniqueItems":true,"items":false})",
     {"[true,false]", "[false]"},
     {"[true,true]"}},
    {R"({"type":"array","prefixItems":[{"type":"null"},false]})", {"[]", "[null]"}, {"[null,1]"}},
    {R"({"type":["array","null"],"contains":false})", {"null"}, {"[]"}},
    // Names that are not declared.
    {R"({"type":"object","properties":{"a":{"type":"integer"}},"patternProperties":{"^a":{"minimum":5},"b$":{"type":"null"}},
        "additionalProperties":{"type":"boolean"}})",
     {R"({"a":7})", R"({"ax":6})", R"({"xb":null})", R"({"q":true})", R"({"a":5,"q":false})",
      R"({"ab":null})"},
     {R"({"a":4})", R"({"ax":4})", R"({"ab":6})", R"({"q":1})", R"({"a":true})"}},
    {R"({"type":"object","patternProperties":{"f.*":{"type":"null"},"b.*":false}})",
     {R"({"foo":null})"},
     {R"({"bar":null})", R"({"fob":null})"}},
    {R"({"type":"object","properties":{"a":{"type":"null"},"é":{"type":"null"}},"additionalProperties":{"type":"boolean"}})",
     {R"({"a":null,"b":true})", R"({"é":null})", R"({"è":true})"},
     {R"({"a":true})", R"({"a":true})", R"({"é":true})"}},
    {R"({"type":"object","properties":{"a":false},"additionalProperties":{"type":"null"}})",
     {R"({"b":null})"},
     {R"({"a":null})"}},
    {R"({"type":"object","properties":{"ab":{"type":"null"}},"propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":{"type":"null"}})",
     {R"({"ab":null,"c":null})"},
     {R"({"B":null})"}},
    {R"({"type":"object","propertyNames":{"maxLength":1},"required":["a"]})",
     {R"({"a":1})"},
     {R"({"a":1,"bc":2})", "{}"}},
    {R"({"type":"object","properties":{"a":{},"b":{}},"dependentSchemas":{"a":true,"b":false}})",
     {R"({"a":1})", "{}"},
     {R"({"b":1})"}},
    // Negations.
    {R"({"type":"string","not":{"enum":["abc","é"]}})",
     {R"("ab")", R"("abcd")", R"("")", R"("è")"},
     {R"("abc")", R"("é")"}},
    {R"({"type":"string","maxLength":2,"not":{"enum":["","a"]}})",
     {R"("b")", R"("aa")"},
     {R"("")", R"("a")", R"("aaa")"}},
    {R"({"type":"string","pattern":"^a","not":{"pattern":"b"}})",
     {R"("a")", R"("ac")"},
     {R"("ab")", R"("c")"}},
    {R"({"type":"integer","not":{"minimum":3,"maximum":5}})", {"2", "6", "-1"}, {"3", "5"}},
    {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}},"not":{"required":["a","b"]}})",
     {R"({"a":1})", R"({"b":null})", "{}"},
     {R"({"a":1,"b":null})"}},
    {R"({"type":"array","items":{"type":"integer"},"not":{"items":{"minimum":3}}})",
     {"[1,5]", "[2]"},
     {"[]", "[3]", "[5,4]"}},
    {R"({"if":{"exclusiveMaximum":0},"then":{"minimum":-10}})", {"-3", "4"}, {"-11"}},
    {R"({"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]})", {"1", "-7"}, {"2", "3"}},
    {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"oneOf":[{"required":["a"]},{"required":["b"]}]})",
     {R"({"a":null})", R"({"b":null})"},
     {R"({"a":null,"b":null})", "{}"}},
    // One part of many says nothing of another's condition, and descriptions say nothing at all.
    {R"({"type":"integer","allOf":[{"if":{"maximum":0}},{"then":{"minimum":-3}},{"else":{"multipleOf":2}}]})",
     {"-5", "3"},
     {"null"}},
    {R"({"allOf":[{"description":"x","type":"string"},{"description":"y","maxLength":3}]})",
     {R"("ab")"},
     {R"("abcd")"}},
    {R"({"type":"string","allOf":[{"pattern":"[a-z]"},{"pattern":"[0-9]"},{"pattern":"^.{4,}$"}]})",
     {R"("ab12")", R"("1a2b3")"},
     {R"("abcd")", R"("a1")"}},
    {R"({"type":"string","enum":["a","B","cd"],"pattern":"^[a-z]+$"})", {R"("a")", R"("cd")"}, {R"("B")"}},
    {R"({"type":"number","minimum":-18446744073709551615})", {"3", "-4.5"}, {"null"}},
    // Formats.
    {R"({"type":"string","format":"time"})",
     {R"("23:59:59Z")", R"("08:30:06.28-08:00")"},
     {R"("24:00:00Z")", R"("22:59:60Z")"}},
    {R"({"type":"string","format":"ipv6"})",
     {R"("::1")", R"("1:2:3:4:5:6:7:8")", R"("::ffff:192.168.0.1")", R"("fe80::a")"},
     {R"("12345::")", R"("::ffff:192.168.0.01")", R"("1::2::3")", R"(":2:3:4:5:6:7:8")"}},
    {R"({"type":"string","format":"uri"})",
     {R"("http://a.b:80/c?d=e#f")", R"("urn:x:y")", R"("ldap://[2001:db8::7]/c")", R"("mailto:a@b.c")"},
     {R"("//a.b")", R"("abc")", R"("http:// x")", R"("http://2001:db8:85a3/")", R"("bar,baz:qux")"}},
    {R"({"type":"string","format":"iri"})", {R"("http://ƒøø.ßår/?∂=π#x")"}, {R"("abc")"}},
    {R"({"type":"string","format":"uri-template"})", {R"("http://a/{term:1}/{?x,y*}")"}, {R"("a{b")"}},
    {R"({"type":"string","format":"hostname"})",
     {R"("example.com")", R"("a-b.c")", R"("localhost")"},
     {R"("-a")", R"("a..b")", R"("xn--07jt112bpxg")",
      R"("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl.com")"}},
    {R"({"type":"string","format":"regex"})", {R"("^[a-z]+(x|y)*$")", R"("a.c")"}, {R"("a(b")", R"("+")"}},
    {R"({"type":"string","format":"uri","pattern":"^https"})",
     {R"("https://a.b")"},
     {R"("http://a.b")", R"("httpsx")"}},
    // References of all kinds.
    {R"({"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"http://e.x/a.json","properties":{"foo":{"$id":"b.json",
        "$defs":{"inner":{"type":"null"}},"$ref":"#/$defs/inner"}},"required":["foo"]})",
     {R"({"foo":null})"},
     {R"({"foo":1})"}},
    {R"({"$id":"https://example.com/root.json","properties":{"a":{"$ref":"item.json"},"b":{"$ref":"#here"}},"required":["a","b"],
        "$defs":{"x":{"$id":"item.json","type":"null"},"y":{"$anchor":"here","type":"boolean"}}})",
     {R"({"a":null,"b":true})"},
     {R"({"a":1,"b":true})", R"({"a":null,"b":1})"}},
    {R"({"properties":{"a":{"$ref":"#/$defs/per%25cent"},"b":{"$ref":"#/$defs/sl~1ash"}},"$defs":{"per%cent":{"type":"null"},"sl/ash":{"type":"boolean"}}})",
     {R"({"a":null,"b":true})"},
     {R"({"a":true})"}}};

class SchemaCases : public Xgrammar {};

TEST_F(SchemaCases, DocumentsThatSatisfyThemCanBeWrittenAndOthersCannot) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.schema);
    const auto factory = compile(Kind::json_schema, one.schema);
    if (factory == nullptr) continue;  // a failure already
    const auto takes = [&](const std::string& text) {
      const auto constraint = factory->make();
      for (const char byte : text)
        if (!constraint->advance(static_cast<unsigned char>(byte))) return false;
      return constraint->advance(FakeTokenizer::kEos);
    };
    for (const char* const document : one.valid) EXPECT_TRUE(takes(document)) << document;
    for (const char* const document : one.invalid) EXPECT_FALSE(takes(document)) << document;
  }
}

TEST_F(SchemaCases, WhatCannotBeHeldIsRefused) {
  for (const char* const schema :
       {R"({"oneOf":[{"type":"integer"},{"multipleOf":2}]})",
        R"({"type":"array","items":{"type":"string"},"uniqueItems":true})",
        R"x({"type":"string","not":{"pattern":"(^a|b)"}})x",
        R"({"type":"string","allOf":[{"pattern":"^a$"},{"pattern":"^b$"}]})",
        R"({"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"},{}]}},"$ref":"#/$defs/a"})"})
    EXPECT_NE(problem(Kind::json_schema, schema), "") << schema;
}

}  // namespace
}  // namespace pagoda
