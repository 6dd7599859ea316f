#pragma once
// GrammarSpec: the form required of an answer, as requested: a schema, an expression, a grammar. Neither
// validated nor compiled (grammar_service.h does both). Plain data.
#include <string>
#include <vector>

namespace pagoda {

struct GrammarSpec {
  enum class Kind {
    json_object,     // any JSON object; `text` is empty
    json_schema,     // JSON Schema
    regex,           // the whole answer matches
    choice,          // a JSON list of strings, one of which must be the answer
    grammar,         // EBNF in GBNF syntax with a rule `root`, or in Lark syntax with a rule `start`
    structural_tag,  // vLLM's: {"type": "structural_tag", "format": …}, or with "structures" and "triggers"
  };
  Kind kind = Kind::json_object;
  std::string text = {};
  std::string param = {};  // the request field, named in errors
  // Allows special tokens where their text occurs in the grammar. Other special tokens are never allowed.
  bool special_tokens = false;
  bool compact = false;  // no white space between the parts of JSON text
  bool most = false;     // omit schema parts that cannot be enforced, instead of refusing the schema
  std::vector<std::string> left_out = {};  // schema parts already omitted from `text`

  // Equal if and only if the grammars are equal.
  std::string key() const {
    return std::to_string(static_cast<int>(kind)) + (special_tokens ? "+" : "-") + (compact ? "c" : "") +
           (most ? "m" : "") + text;
  }
};

}  // namespace pagoda
