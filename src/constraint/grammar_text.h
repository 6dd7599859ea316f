#pragma once
// From what clients send to what the compiler takes: choices as a grammar, structural tags with their schemas
// checked. Threads: any.
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "constraint/grammar_spec.h"
#include "constraint/schema_check.h"

namespace pagoda {

// Strict JSON within `max_bytes` and a depth of 64.
Result<boost::json::value> parse_grammar_json(std::string_view text,
                                              std::size_t max_bytes = kMaxGrammarBytes);

// GBNF of `choices`, a JSON list of strings.
Result<std::string> choice_grammar(std::string_view choices);

// The format of a structural tag in XGrammar's form, from it or from vLLM's older one; each schema inside is
// prepared. Of a schema with kMaxOfSchema beside it what can be held is, and `dropped` names the rest. Then
// the tag's text.
inline constexpr std::string_view kMaxOfSchema = "x-most-of-schema";
Result<boost::json::value> structural_format(std::string_view text, const PatternChecks& patterns = {},
                                             std::vector<std::string>* dropped = nullptr);
Result<std::string> prepare_structural_tag(std::string_view text, const PatternChecks& patterns = {},
                                           std::vector<std::string>* dropped = nullptr);

// Whether a grammar is written in Lark's form, as vLLM tells it: no "::=".
bool is_lark(std::string_view grammar);
// A Lark grammar without the marks of llguidance, in which guidance writes it, that do not change the
// language: its first line, and the attribute `capture` of a rule. Other attributes (stop, max_tokens) stay.
std::string plain_lark(std::string_view grammar);

}  // namespace pagoda
