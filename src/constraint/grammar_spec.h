#pragma once
// GrammarSpec: the form that an answer must have, as it was asked for: a schema, an expression, a grammar.
// Not yet checked and not compiled (grammar_service.h does both). Plain data.
#include <string>
#include <vector>

namespace pagoda {

struct GrammarSpec {
  enum class Kind {
    json_object,     // any JSON object; no text
    json_schema,     // JSON Schema
    regex,           // the whole answer matches
    choice,          // a JSON list of strings: one of them
    grammar,         // EBNF in GBNF's spelling with a rule `root`, or Lark's with a rule `start`
    structural_tag,  // vLLM's: {"type": "structural_tag", "format": …}, or with "structures" and "triggers"
  };
  Kind kind = Kind::json_object;
  std::string text = {};
  std::string param = {};  // the field that asked for it, which errors name
  // Special tokens whose text stands in the grammar may be said where it does. Others never may.
  bool special_tokens = false;
  bool compact = false;  // no white space between the parts of a JSON text
  bool most = false;     // leave out the parts of a schema that cannot be held, instead of refusing it
  std::vector<std::string> left_out = {};  // parts of schemas that the text lacks already

  // Equal exactly for equal grammars.
  std::string key() const {
    return std::to_string(static_cast<int>(kind)) + (special_tokens ? "+" : "-") + (compact ? "c" : "") +
           (most ? "m" : "") + text;
  }
};

}  // namespace pagoda
