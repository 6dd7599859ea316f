#pragma once
// Converts client input to compiler input: choices to a grammar; structural tags with their schemas checked.
// Threads: any.
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "constraint/grammar_spec.h"
#include "constraint/schema_check.h"

namespace pagoda {

// Parses strict JSON of at most `max_bytes` and a depth of 64.
Result<boost::json::value> parse_grammar_json(std::string_view text,
                                              std::size_t max_bytes = kMaxGrammarBytes);

// A GBNF grammar for `choices`, a JSON list of strings.
Result<std::string> choice_grammar(std::string_view choices);

// structural_format(): a structural tag's format in XGrammar's form, from that form or from vLLM's older one;
// prepares each schema inside. For a schema marked with kMaxOfSchema, keeps what can be enforced and adds the
// rest to `dropped`. prepare_structural_tag(): the same as the tag's text.
inline constexpr std::string_view kMaxOfSchema = "x-most-of-schema";
Result<boost::json::value> structural_format(std::string_view text, const PatternChecks& patterns = {},
                                             std::vector<std::string>* dropped = nullptr);
Result<std::string> prepare_structural_tag(std::string_view text, const PatternChecks& patterns = {},
                                           std::vector<std::string>* dropped = nullptr);

// True if a grammar is in Lark syntax; as in vLLM, if it contains no "::=".
bool is_lark(std::string_view grammar);
// Removes llguidance's additions to a Lark grammar that do not change the language: its first line, and a
// rule's attribute `capture`. Other attributes (stop, max_tokens) are kept.
std::string plain_lark(std::string_view grammar);

}  // namespace pagoda
