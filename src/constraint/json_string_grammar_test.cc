// A grammar inside a JSON string: what has to be escaped there is.
#include "constraint/json_string_grammar.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

std::string written(std::string_view ebnf) {
  const Result<std::string> grammar = json_string_grammar(ebnf);
  return grammar ? *grammar : "refused";
}

TEST(JsonStringGrammar, LiteralsAreWrittenAsInAString) {
  EXPECT_EQ(written(R"(root ::= (a "\n"))"), R"(root ::= (a "\\n"))");
  EXPECT_EQ(written(R"(root ::= "\"\\\x01")"), R"(root ::= "\\\"\\\\\\u0001")");
  EXPECT_EQ(written(R"(root ::= "a\xe9")"), R"(root ::= "a\U000000e9")");
}

TEST(JsonStringGrammar, ClassesLoseWhatIsEscapedAndGetItsEscapes) {
  EXPECT_EQ(written("root ::= [a-c]*"), R"(root ::= ([\U00000061-\U00000063])*)");
  EXPECT_EQ(written(R"(root ::= [\n\"x])"), R"(root ::= ([\U00000078] | "\\n" | "\\\""))");
  const std::string any = written(R"(root ::= [^\n])");
  EXPECT_EQ(any.find("\"\\\\n\""), std::string::npos) << any;
  EXPECT_NE(any.find(R"("\\t")"), std::string::npos) << any;
  EXPECT_NE(any.find(R"("\\u0000")"), std::string::npos) << any;
  EXPECT_NE(any.find(R"(\U0000005d-\U0010ffff)"), std::string::npos) << any;
}

TEST(JsonStringGrammar, OtherPartsStayOrAreRefused) {
  EXPECT_EQ(written("root ::= ((x{1, -1} y) | (z))\n"), "root ::= ((x{1, -1} y) | (z))\n");
  for (const char* const other :
       {"root ::= Token(3)", "root[lazy] ::= \"a\"", "root ::= \"a", "root ::= [a", "root ::= [b-a]"})
    EXPECT_EQ(written(other), "refused") << other;
}

}  // namespace
}  // namespace pagoda
