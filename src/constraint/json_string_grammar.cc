#include "constraint/json_string_grammar.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

constexpr char32_t kLast = 0x10ffff;

// A character that must be escaped inside a string, and its single-letter escape if it has one.
struct Escape {
  char32_t character;
  std::string_view written;
};
constexpr Escape kEscapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"},
                               {'\t', "\\t"}, {'\b', "\\b"},  {'\f', "\\f"}};

bool is_escaped(char32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

std::string escape_of(char32_t c) {
  for (const Escape& escape : kEscapes)
    if (escape.character == c) return std::string(escape.written);
  constexpr std::string_view kHex = "0123456789abcdef";
  return concat("\\u00", kHex.substr(c >> 4, 1), kHex.substr(c & 15, 1));
}

struct Range {
  char32_t first, last;
};

class Rewriter {
 public:
  explicit Rewriter(std::string_view text) : text_(text) {}

  Result<std::string> run() {
    while (ok_ && at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        literal();
      } else if (c == '[') {
        if (at_ > 0 && is_name(text_[at_ - 1])) break;  // attributes of a rule
        character_class();
      } else if (c == '(' && at_ > 0 && is_name(text_[at_ - 1])) {
        break;  // Token(…), TagDispatch(…) and others
      } else {
        out_.push_back(c);
        ++at_;
      }
    }
    if (!ok_ || at_ < text_.size())
      return invalid_argument("the grammar uses a rule that is not supported inside a JSON string");
    return std::move(out_);
  }

 private:
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  // Reads the character at `at_`, in any spelling; nullopt if the grammar is malformed.
  std::optional<char32_t> character() {
    if (at_ >= text_.size()) return std::nullopt;
    if (text_[at_] != '\\') {
      const auto lead = static_cast<unsigned char>(text_[at_]);
      const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      char32_t code = length == 1 ? lead : lead & (0x7fU >> length);
      if (at_ + length > text_.size()) return std::nullopt;
      for (std::size_t i = 1; i < length; ++i)
        code = code << 6 | (static_cast<unsigned char>(text_[at_ + i]) & 0x3fU);
      at_ += length;
      return code;
    }
    if (++at_ >= text_.size()) return std::nullopt;
    const char letter = text_[at_++];
    constexpr std::pair<char, char32_t> kLetters[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'},
                                                      {'b', '\b'}, {'f', '\f'}, {'v', '\v'},
                                                      {'a', '\a'}, {'0', 0},    {'e', 0x1b}};
    for (const auto& [name, code] : kLetters)
      if (letter == name) return code;
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0) return static_cast<unsigned char>(letter);
    std::uint32_t code = 0;
    const char* const first = text_.data() + at_;
    if (at_ + digits > text_.size() || std::from_chars(first, first + digits, code, 16).ptr != first + digits)
      return std::nullopt;
    at_ += digits;
    return code;
  }

  void append_code(char32_t code) {
    constexpr std::string_view kHex = "0123456789abcdef";
    out_.append("\\U");
    for (int shift = 28; shift >= 0; shift -= 4) out_.push_back(kHex[(code >> shift) & 15]);
  }
  // Appends text as it is spelled in a literal.
  void append_text(std::string_view text) {
    for (const char c : text) {
      if (c == '"' || c == '\\') out_.push_back('\\');
      out_.push_back(c);
    }
  }

  void literal() {
    ++at_;
    out_.push_back('"');
    while (at_ < text_.size() && text_[at_] != '"') {
      const std::optional<char32_t> code = character();
      if (!code) return void(ok_ = false);
      if (is_escaped(*code))
        append_text(escape_of(*code));
      else if (*code < 0x7f)
        out_.push_back(static_cast<char>(*code));
      else
        append_code(*code);
    }
    if (at_ >= text_.size()) return void(ok_ = false);
    ++at_;
    out_.push_back('"');
  }

  void character_class() {
    ++at_;
    const bool negative = at_ < text_.size() && text_[at_] == '^';
    at_ += negative;
    std::vector<Range> ranges;
    while (at_ < text_.size() && text_[at_] != ']') {
      const std::optional<char32_t> first = character();
      std::optional<char32_t> last = first;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        last = character();
      }
      if (!first || !last || *last < *first) return void(ok_ = false);
      ranges.push_back({*first, *last});
    }
    if (at_ >= text_.size()) return void(ok_ = false);
    ++at_;
    if (negative) ranges = others(std::move(ranges));
    write_class(ranges);
  }

  static std::vector<Range> others(std::vector<Range> ranges) {
    std::ranges::sort(ranges, {}, &Range::first);
    std::vector<Range> out;
    char32_t next = 0;
    for (const Range& range : ranges) {
      if (range.first > next) out.push_back({next, range.first - 1});
      next = std::max<char32_t>(next, range.last + 1);
    }
    if (next <= kLast) out.push_back({next, kLast});
    return out;
  }

  // Writes the characters that need no escape as a class, and the others as a choice of escapes beside it.
  void write_class(const std::vector<Range>& ranges) {
    std::vector<Range> plain;
    std::vector<char32_t> escaped;
    for (Range range : ranges) {
      for (char32_t c = range.first; c <= std::min<char32_t>(range.last, '\\'); ++c)
        if (is_escaped(c)) escaped.push_back(c);
      for (const Range& allowed : {Range{0x20, '"' - 1}, Range{'"' + 1, '\\' - 1}, Range{'\\' + 1, kLast}}) {
        const Range part{std::max(range.first, allowed.first), std::min(range.last, allowed.last)};
        if (part.first <= part.last) plain.push_back(part);
      }
    }
    out_.push_back('(');
    if (!plain.empty()) {
      out_.push_back('[');
      for (const Range& range : plain) {
        append_code(range.first);
        if (range.first == range.last) continue;
        out_.push_back('-');
        append_code(range.last);
      }
      out_.push_back(']');
    }
    bool first = plain.empty();
    for (const char32_t c : escaped) {
      out_.append(std::exchange(first, false) ? "\"" : " | \"");
      append_text(escape_of(c));
      out_.push_back('"');
    }
    if (first) ok_ = false;  // the class is empty
    out_.push_back(')');
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  bool ok_ = true;
};

}  // namespace

Result<std::string> json_string_grammar(std::string_view ebnf) { return Rewriter(ebnf).run(); }

}  // namespace pagoda
