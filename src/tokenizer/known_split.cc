// The patterns of GPT-2, Llama 3 and the Qwen family, split by hand-written code: one or two characters
// determine the alternative. known_split_test.cc compares each with its regular expression.
#include <array>

#include "base/utf8.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode.h"

namespace pagoda {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

enum class Contractions {
  lower,     // 's|'t|...
  any_case,  // (?:'[sS]|'[tT]|...)
  folded,    // (?i:'s|'t|...): includes the long s
};

struct Rules {
  Contractions contractions;
  bool gpt2;                  // " ?" before letters and numbers; newlines are ordinary white space
  std::uint16_t letter_mask;  // \p{L} or [\p{L}\p{M}]
  std::size_t max_digits;     // digits in one piece, unless gpt2
};

constexpr auto kLetterBit = static_cast<std::uint16_t>(CharClass::letter);
constexpr auto kMarkBit = static_cast<std::uint16_t>(CharClass::mark);
constexpr auto kNumberBit = static_cast<std::uint16_t>(CharClass::number);
constexpr auto kSpaceBit = static_cast<std::uint16_t>(CharClass::white_space);

class KnownSplit final : public PreTokenizer {
 public:
  explicit KnownSplit(Rules rules) : rules_(rules), table_(CharTable::get()) {}

  bool split(const Piece& input, PieceSink& out) const override {
    for (std::size_t at = 0; at < input.text.size();) {
      const std::size_t end = rules_.gpt2 ? gpt2_end(input.text, at) : newer_end(input.text, at);
      out.piece({input.text.substr(at, end - at), input.at_origin && at == 0});
      at = end;
    }
    return true;
  }

 private:
  std::uint16_t flags_at(std::string_view text, std::size_t& at) const {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      ++at;
      return table_[byte];
    }
    return table_[next_code_point(text, at)];
  }
  // Moves `at` past the run of characters that have (wanted) or lack (!wanted) a class of `mask`.
  void skip(std::string_view text, std::size_t& at, std::uint16_t mask, bool wanted) const {
    while (at < text.size()) {
      std::size_t next = at;
      if (((flags_at(text, next) & mask) != 0) != wanted) return;
      at = next;
    }
  }

  // The end of a contraction such as "'s" at `at`, which is an apostrophe; 0 if there is none.
  std::size_t contraction_end(std::string_view text, std::size_t at) const {
    const auto letter = [&](std::size_t i) -> char {
      if (i >= text.size()) return 0;
      const char c = text[i];
      return rules_.contractions != Contractions::lower && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32)
                                                                                : c;
    };
    const char first = letter(at + 1), second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
      return at + 3;
    if (rules_.contractions == Contractions::folded && text.substr(at + 1).starts_with("\xC5\xBF"))
      return at + 3;
    return 0;
  }

  std::size_t gpt2_end(std::string_view text, std::size_t at) const {
    if (text[at] == '\'')
      if (const std::size_t end = contraction_end(text, at)) return end;
    std::size_t run = at + (text[at] == ' ' ? 1 : 0);
    if (run < text.size()) {
      std::size_t next = run;
      const std::uint16_t flags = flags_at(text, next);
      if (!(flags & kSpaceBit)) {
        if (flags & rules_.letter_mask)
          skip(text, next, rules_.letter_mask, true);
        else if (flags & kNumberBit)
          skip(text, next, kNumberBit, true);
        else
          skip(text, next, rules_.letter_mask | kNumberBit | kSpaceBit, false);
        return next;
      }
    }
    return white_space_end(text, at);
  }

  // \s+(?!\S)|\s+ : a run of white space, without its last character if something follows.
  std::size_t white_space_end(std::string_view text, std::size_t at) const {
    std::size_t end = at;
    skip(text, end, kSpaceBit, true);
    if (end == text.size()) return end;
    const std::size_t last = previous_character(text, end);
    return last > at ? last : end;
  }

  std::size_t newer_end(std::string_view text, std::size_t at) const {
    if (text[at] == '\'')
      if (const std::size_t end = contraction_end(text, at)) return end;
    std::size_t next = at;
    const std::uint16_t flags = flags_at(text, next);
    if (flags & rules_.letter_mask) {
      skip(text, next, rules_.letter_mask, true);
      return next;
    }
    if (flags & kNumberBit) {
      for (std::size_t digits = 1; digits < rules_.max_digits && next < text.size(); ++digits) {
        std::size_t ahead = next;
        if (!(flags_at(text, ahead) & kNumberBit)) break;
        next = ahead;
      }
      return next;
    }
    const std::uint16_t not_other = rules_.letter_mask | kNumberBit | kSpaceBit;
    if (next < text.size() && text[at] != '\r' && text[at] != '\n') {
      std::size_t ahead = next;
      const std::uint16_t following = flags_at(text, ahead);
      if (following & rules_.letter_mask) {
        skip(text, ahead, rules_.letter_mask, true);
        return ahead;
      }
      if (text[at] == ' ' && !(following & not_other)) return symbols_end(text, ahead, not_other);
    }
    if (!(flags & kSpaceBit)) return symbols_end(text, next, not_other);
    // \s*[\r\n]+ : up to the last line break of the run.
    std::size_t end = at, last_break = 0;
    while (end < text.size()) {
      std::size_t ahead = end;
      if (!(flags_at(text, ahead) & kSpaceBit)) break;
      if (text[end] == '\r' || text[end] == '\n') last_break = ahead;
      end = ahead;
    }
    if (last_break > 0) return last_break;
    if (end == text.size()) return end;
    const std::size_t last = previous_character(text, end);
    return last > at ? last : end;
  }

  // [^\s\p{L}\p{N}]+[\r\n]* from inside the run.
  std::size_t symbols_end(std::string_view text, std::size_t at, std::uint16_t not_other) const {
    skip(text, at, not_other, false);
    while (at < text.size() && (text[at] == '\r' || text[at] == '\n')) ++at;
    return at;
  }

  Rules rules_;
  const CharTable& table_;
};

}  // namespace

PreTokenizerPtr make_known_split(std::string_view pattern, SplitBehavior behavior, bool invert) {
  const bool isolated = behavior == SplitBehavior::isolated && !invert;
  if (pattern == kDigitGroupsPattern) return isolated ? make_digit_groups() : nullptr;
  // The other patterns match every character of a text, so all behaviours except these two split alike.
  if (!isolated && !(behavior == SplitBehavior::removed && invert)) return nullptr;
  struct Known {
    std::string_view pattern;
    Rules rules;
  };
#define NEWER(CONTRACTIONS, LETTERS, NUMBERS, OTHER)                           \
  CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?" LETTERS "+|" NUMBERS "| ?[^\\s" OTHER \
               "]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define ANY_CASE "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
  using enum Contractions;
  static const std::array kKnown = {
      Known{kGpt2Pattern, {lower, true, kLetterBit, 0}},
      Known{NEWER(FOLDED, "\\p{L}", "\\p{N}{1,3}", "\\p{L}\\p{N}"), {folded, false, kLetterBit, 3}},
      Known{NEWER(FOLDED, "\\p{L}", "\\p{N}", "\\p{L}\\p{N}"), {folded, false, kLetterBit, 1}},
      Known{NEWER(ANY_CASE, "\\p{L}", "\\p{N}{1,3}", "\\p{L}\\p{N}"), {any_case, false, kLetterBit, 3}},
      Known{NEWER(ANY_CASE, "\\p{L}", "\\p{N}", "\\p{L}\\p{N}"), {any_case, false, kLetterBit, 1}},
      Known{NEWER(FOLDED, "[\\p{L}\\p{M}]", "\\p{N}", "\\p{L}\\p{M}\\p{N}"),
            {folded, false, kLetterBit | kMarkBit, 1}},
      Known{NEWER(ANY_CASE, "[\\p{L}\\p{M}]", "\\p{N}", "\\p{L}\\p{M}\\p{N}"),
            {any_case, false, kLetterBit | kMarkBit, 1}},
  };
#undef NEWER
#undef FOLDED
#undef ANY_CASE
  for (const Known& known : kKnown)
    if (known.pattern == pattern) return std::make_unique<KnownSplit>(known.rules);
  return nullptr;
}

}  // namespace pagoda
