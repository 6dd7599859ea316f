#pragma once
// Regex: the regular expressions of tokenizer files, which are written for Oniguruma (Ruby syntax), run on
// PCRE2 with JIT. compile() rewrites the constructs that the two interpret differently: \s \w \d \h \b,
// script names, nested classes and class intersection, (?m), and classes whose Unicode version differs. Not
// for patterns from users: those need a linear-time engine.
// Threads: any; matching is const and keeps its state per thread.
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

class Regex {
 public:
  // unimplemented or invalid_argument, naming the problem in the pattern.
  static Result<Regex> compile(std::string_view pattern);
  static Result<Regex> literal(std::string_view text);  // matches exactly `text`
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  enum class Match { found, none, failed };  // failed: the limit on backtracking was reached
  // The first match at or after `start` in well-formed UTF-8.
  Match find(std::string_view text, std::size_t start, std::size_t& match_begin,
             std::size_t& match_end) const;

  // Calls on_part(begin, end, is_match) for consecutive parts that cover `text`, as Oniguruma's find_iter
  // does. False if the limit on backtracking was reached.
  template <class OnPart>
  bool for_each_part(std::string_view text, const OnPart& on_part) const {
    std::size_t at = 0, previous = 0, last_match_end = std::string_view::npos;
    while (at <= text.size()) {
      std::size_t begin = 0, end = 0;
      const Match match = find(text, at, begin, end);
      if (match == Match::failed) return false;
      if (match == Match::none) break;
      if (begin == end && end == last_match_end) {  // an empty match right after a match does not count
        at = after_character(text, at);
        continue;
      }
      at = last_match_end = end;
      if (previous != begin) on_part(previous, begin, false);
      on_part(begin, end, true);
      previous = end;
    }
    if (previous != text.size()) on_part(previous, text.size(), false);
    return true;
  }

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  static std::size_t after_character(std::string_view text, std::size_t at);
  std::unique_ptr<Code> code_;
};

// The pattern in PCRE2 syntax; for tests.
Result<std::string> rewrite_for_pcre2(std::string_view pattern);

}  // namespace pagoda
