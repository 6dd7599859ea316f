#pragma once
// Counted repetitions: the `{3,5000}` of `[a-z]{3,5000}`. XGrammar unrolls repetitions of up to 128 and
// copies 128 of larger ones, and computes a mask for each copy. Here the repeated expression is a rule of its
// own, reached by an edge that counts, whatever the bounds: its masks are computed once for all grammars. The
// mask contains the tokens that stay within the repetition. If fewer repetitions are left than the longest
// token has characters, the mask is cut to the tokens that are short enough. Each repetition takes at least
// one character.
//
// A counted rule is marked by its lookahead: an endless repetition of itself, which no grammar can express.
// Source: none; XGrammar 0.2.8. Threads: any; CountedRules and JsonStrings are per thread.
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "earley_parser.h"
#include "grammar_builder.h"

namespace xgrammar {
struct AdaptiveTokenMask;
}

namespace pagoda {

constexpr int kMostUnrolled = 4;  // repetitions of one character
// Other repetitions. A text that can be divided in many ways has all its possible counts at the same time.
constexpr int kMostUnrolledGroups = 64;
constexpr std::int32_t kEndless = std::numeric_limits<std::int32_t>::max();

// Scope in which this thread parses expressions for the content of JSON strings (`within`), or for plain
// text.
class JsonStrings {
 public:
  explicit JsonStrings(bool within) : before_(std::exchange(within_, within)) {}
  ~JsonStrings() { within_ = before_; }
  JsonStrings(const JsonStrings&) = delete;
  static bool within() { return within_; }

 private:
  static thread_local bool within_;
  const bool before_;
};

// Scope that holds the counted rules of the grammar being built: equal expressions share a rule. Otherwise
// nested ones would be created again for each level.
class CountedRules {
 public:
  CountedRules() : before_(std::exchange(current_, this)) {}
  ~CountedRules() { current_ = before_; }
  CountedRules(const CountedRules&) = delete;

 private:
  friend std::int32_t counted_rule(xgrammar::GrammarBuilder&, const std::string&, bool);
  static thread_local CountedRules* current_;
  CountedRules* const before_;
  std::map<std::string, std::int32_t> rules_;
};

// Returns the rule that repeats `expression`, which is never empty; -1 if no string matches it. `sealed`: the
// expression is one character, and only the end of a JSON string can follow its repetition.
std::int32_t counted_rule(xgrammar::GrammarBuilder& builder, const std::string& expression, bool sealed);

// The same for an expression of one character in a grammar. Returns a rule named after `name` that repeats
// it.
std::int32_t counted_characters(xgrammar::GrammarBuilder& builder, const std::string& name,
                                std::int32_t character, std::int32_t least, std::int32_t most);

bool is_counted(const xgrammar::Grammar& grammar, std::int32_t rule);

struct CountedPlace {
  std::int32_t left = kEndless;  // characters that are certainly allowed within the repetition
  bool sealed = false;           // no more characters than `left` are allowed
};
// `rows`: for each position, the rules that are open there, with their parents.
CountedPlace counted_place(
    const xgrammar::Grammar& grammar,
    const xgrammar::Compact2DArray<std::pair<std::int32_t, xgrammar::ParserState>>& rows,
    const xgrammar::ParserState& state);

// Returns `mask` without the tokens of more characters than are left: these become uncertain, or are rejected
// if the place is sealed.
xgrammar::AdaptiveTokenMask cut_mask(const xgrammar::AdaptiveTokenMask& mask, CountedPlace place,
                                     const xgrammar::TokenizerInfo& vocabulary);

}  // namespace pagoda
