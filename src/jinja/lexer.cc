#include "jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "jinja/error.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const LexerOptions& options)
      : source_(normalize_newlines(source)), text_(source_), options_(options) {
    if (!text_.empty() && text_.back() == '\n') text_.remove_suffix(1);
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) root();
    push(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(std::string message) const {
    throw TemplateError(ErrorKind::syntax, std::move(message), line_);
  }

  bool starts_with(std::string_view piece) const { return text_.substr(at_, piece.size()) == piece; }
  char peek(std::size_t offset = 0) const { return at_ + offset < text_.size() ? text_[at_ + offset] : '\0'; }

  // All forward movement goes through here, so that lines are counted.
  void advance_to(std::size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  std::size_t skip_space(std::size_t at) const {
    while (at < text_.size()) {
      std::size_t next = at;
      if (!is_space(next_char(text_, next))) break;
      at = next;
    }
    return at;
  }

  Token& push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  void push_data(std::string_view data) {
    if (!data.empty()) push(TokenKind::data, std::string(data));
  }

  // The data before a tag, with the tag's whitespace control applied.
  std::string_view strip_before(std::string_view data, char sign, bool is_variable) const {
    if (sign == '-') {
      std::size_t end = data.size();
      while (end > 0) {
        std::size_t begin = end;
        if (!is_space(previous_char(data, begin))) break;
        end = begin;
      }
      return data.substr(0, end);
    }
    if (sign == '+' || !options_.lstrip_blocks || is_variable) return data;
    const std::size_t newline = data.rfind('\n');
    const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_begin == 0 && !line_starting_) return data;
    for (std::size_t at = line_begin; at < data.size();) {
      if (!is_space(next_char(data, at))) return data;
    }
    return data.substr(0, line_begin);
  }

  char take_sign() {
    const char sign = peek();
    if (sign != '-' && sign != '+') return '\0';
    ++at_;
    return sign;
  }

  // Handles a closing delimiter that ends at `end`: skips the white space that it swallows. `sign` is the
  // character before it.
  void close(std::size_t end, char sign, bool trims_newline) {
    if (sign == '-') {
      end = skip_space(end);
    } else if (sign != '+' && trims_newline && end < text_.size() && text_[end] == '\n') {
      ++end;
    }
    line_starting_ = text_[end - 1] == '\n';
    advance_to(end);
  }

  void root() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = text_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= text_.size()) {
        push_data(text_.substr(at_));
        advance_to(text_.size());
        return;
      }
      const char second = text_[tag + 1];
      if (second == '{' || second == '%' || second == '#') break;
    }
    const std::string_view data = text_.substr(at_, tag - at_);
    const char type = text_[tag + 1];
    const char next = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    const char sign = next == '-' || next == '+' ? next : '\0';
    push_data(strip_before(data, sign, type == '{'));
    advance_to(tag);
    if (type == '%' && raw()) return;
    at_ += 2;
    take_sign();
    if (type == '#') {
      comment();
    } else {
      expression(type == '{');
    }
  }

  // Reads a raw block, from its opening tag to its closing tag; false if the tag is a different one.
  bool raw() {
    std::size_t at = at_ + 2;
    if (at < text_.size() && (text_[at] == '-' || text_[at] == '+')) ++at;
    at = skip_space(at);
    if (text_.substr(at, 3) != "raw") return false;
    at = skip_space(at + 3);
    const bool strips = at < text_.size() && text_[at] == '-';
    if (strips) ++at;
    if (text_.substr(at, 2) != "%}") return false;
    close(at + 2, strips ? '-' : '+', false);
    if (at_ == text_.size()) return true;  // as in jinja2: a raw block at the very end is empty

    for (std::size_t tag = text_.find("{%", at_); tag != std::string_view::npos;
         tag = text_.find("{%", tag + 1)) {
      std::size_t end = tag + 2;
      const char sign = end < text_.size() ? text_[end] : '\0';
      if (sign == '-' || sign == '+') ++end;
      end = skip_space(end);
      if (text_.substr(end, 6) != "endraw") continue;
      end = skip_space(end + 6);
      const char close_sign = end < text_.size() ? text_[end] : '\0';
      if (close_sign == '-' || close_sign == '+') ++end;
      if (text_.substr(end, 2) != "%}") continue;
      push_data(strip_before(text_.substr(at_, tag - at_), sign, false));
      advance_to(tag);
      close(end + 2, close_sign, options_.trim_blocks);
      return true;
    }
    fail_here("Missing end of raw directive");
  }

  void comment() {
    if (at_ == text_.size()) return;
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) fail_here("Missing end of comment tag");
    close(end + 2, end > at_ ? text_[end - 1] : '\0', options_.trim_blocks);
  }

  void expression(bool is_variable) {
    push(is_variable ? TokenKind::variable_begin : TokenKind::block_begin, "");
    std::string balance;  // expected closing brackets
    while (at_ < text_.size()) {
      if (balance.empty() && end_of_expression(is_variable)) return;
      const std::size_t after_space = skip_space(at_);
      if (after_space != at_) {
        advance_to(after_space);
        continue;
      }
      const char c = peek();
      if (is_ascii_digit(c)) {
        number();
      } else if (c == '\'' || c == '"') {
        string();
      } else if (!name()) {
        op(balance);
      }
    }
  }

  bool end_of_expression(bool is_variable) {
    const std::string_view closing = is_variable ? "}}" : "%}";
    const char sign = peek();
    const bool has_sign = sign == '-' || (sign == '+' && !is_variable);
    if (text_.substr(at_ + (has_sign ? 1 : 0), 2) != closing) return false;
    push(is_variable ? TokenKind::variable_end : TokenKind::block_end, "");
    close(at_ + (has_sign ? 3 : 2), has_sign ? sign : '\0', options_.trim_blocks && !is_variable);
    return true;
  }

  // Skips digits with single underscores between them, from `at`.
  std::size_t skip_digits(std::size_t at) const {
    while (at < text_.size() && (is_ascii_digit(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() &&
                                                               is_ascii_digit(text_[at + 1])))) {
      ++at;
    }
    return at;
  }

  // The end of the float that begins at `at_`, or `at_` if there is none.
  std::size_t end_of_real() const {
    if (at_ > 0 && text_[at_ - 1] == '.') return at_;
    std::size_t end = skip_digits(at_);
    bool is_real = false;
    if (end + 1 < text_.size() && text_[end] == '.' && is_ascii_digit(text_[end + 1])) {
      end = skip_digits(end + 1);
      is_real = true;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_ascii_digit(text_[exponent])) {
        end = skip_digits(exponent);
        is_real = true;
      }
    }
    return is_real ? end : at_;
  }

  void number() {
    if (const std::size_t end = end_of_real(); end != at_) {
      std::string digits(text_.substr(at_, end - at_));
      std::erase(digits, '_');
      double value = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (parsed.ec != std::errc()) fail_here("a number is out of range: " + digits);
      push(TokenKind::real, digits).real = value;
      at_ = end;
      return;
    }
    int base = 10;
    std::size_t begin = at_;
    const char prefix = static_cast<char>(peek(1) | 0x20);
    const auto is_digit_of = [this](std::size_t at, int wanted) {
      if (at < text_.size() && text_[at] == '_') ++at;
      if (at >= text_.size()) return false;
      const char c = static_cast<char>(text_[at] | 0x20);
      const int digit = is_ascii_digit(text_[at]) ? text_[at] - '0'
                        : c >= 'a' && c <= 'f'    ? c - 'a' + 10
                                                  : 99;
      return digit < wanted;
    };
    if (peek() == '0') {
      const int wanted = prefix == 'b' ? 2 : prefix == 'o' ? 8 : prefix == 'x' ? 16 : 0;
      if (wanted != 0 && is_digit_of(at_ + 2, wanted)) {
        base = wanted;
        begin += 2;
      }
    }
    const int allowed = base != 10      ? base
                        : peek() == '0' ? 1
                                        : 10;  // a number that begins with 0 may contain only zeros
    std::size_t end = base == 10 ? begin + 1 : begin;
    while (is_digit_of(end, allowed)) end += text_[end] == '_' ? 2 : 1;
    std::string digits(text_.substr(begin, end - begin));
    std::erase(digits, '_');
    std::int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (parsed.ec != std::errc()) fail_here("an integer is beyond 64 bits: " + digits);
    push(TokenKind::integer, digits).integer = value;
    at_ = end;
  }

  bool name() {
    std::size_t end = at_;
    bool is_identifier = true;
    while (end < text_.size()) {
      std::size_t next = end;
      const char32_t c = next_char(text_, next);
      if (!is_identifier_part(c) && !is_alnum(c)) break;
      is_identifier = is_identifier && (end == at_ ? is_identifier_start(c) : is_identifier_part(c));
      end = next;
    }
    if (end == at_) return false;
    if (!is_identifier) fail_here("Invalid character in identifier");
    push(TokenKind::name, std::string(text_.substr(at_, end - at_)));
    at_ = end;
    return true;
  }

  void string() {
    const char quote = peek();
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail_here(std::string("unexpected char ") + quote);
    push(TokenKind::string, unescape(text_.substr(at_ + 1, end - at_ - 1)));
    advance_to(end + 1);
  }

  // Python's "unicode-escape" decoding.
  std::string unescape(std::string_view raw_text) const {
    std::string out;
    for (std::size_t at = 0; at < raw_text.size();) {
      const char c = raw_text[at++];
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      const char escape = at < raw_text.size() ? raw_text[at] : '\0';
      if (static_cast<unsigned char>(escape) >= 0x80) {  // jinja2 escapes the character first: \é gives \xe9
        const char32_t character = next_char(raw_text, at);
        char buffer[16];
        const char* format = character < 0x100 ? "\\x%02x" : character < 0x10000 ? "\\u%04x" : "\\U%08x";
        out.append(buffer, static_cast<std::size_t>(std::snprintf(buffer, sizeof buffer, format,
                                                                  static_cast<unsigned>(character))));
        continue;
      }
      ++at;
      switch (escape) {
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          out.push_back(escape);
          break;
        case 'a':
          out.push_back('\a');
          break;
        case 'b':
          out.push_back('\b');
          break;
        case 'f':
          out.push_back('\f');
          break;
        case 'n':
          out.push_back('\n');
          break;
        case 'r':
          out.push_back('\r');
          break;
        case 't':
          out.push_back('\t');
          break;
        case 'v':
          out.push_back('\v');
          break;
        case 'x':
          append_code(out, raw_text, at, 2, 2, 16);
          break;
        case 'u':
          append_code(out, raw_text, at, 4, 4, 16);
          break;
        case 'U':
          append_code(out, raw_text, at, 8, 8, 16);
          break;
        case 'N':
          fail_here("\\N{...} escapes are not supported");
        default:
          if (escape >= '0' && escape <= '7') {
            --at;
            append_code(out, raw_text, at, 1, 3, 8);
          } else {
            out.push_back('\\');
            out.push_back(escape);
          }
      }
    }
    return out;
  }

  void append_code(std::string& out, std::string_view raw_text, std::size_t& at, std::size_t min_digits,
                   std::size_t max_digits, int base) const {
    const std::string_view digits = raw_text.substr(std::min(at, raw_text.size()), max_digits);
    std::uint32_t code = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    const auto length = static_cast<std::size_t>(parsed.ptr - digits.data());
    if (parsed.ec != std::errc() || length < min_digits) fail_here("truncated escape in a string");
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      fail_here("illegal Unicode character in a string");
    append_utf8(out, code);
    at += length;
  }

  void op(std::string& balance) {
    static constexpr std::string_view kPairs[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view pair : kPairs) {
      if (!starts_with(pair)) continue;
      push(TokenKind::op, std::string(pair));
      at_ += 2;
      return;
    }
    const char c = peek();
    if (kSingles.find(c) == std::string_view::npos) fail_here(std::string("unexpected char '") + c + "'");
    if (c == '(') balance.push_back(')');
    if (c == '[') balance.push_back(']');
    if (c == '{') balance.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (balance.empty()) fail_here(std::string("unexpected '") + c + "'");
      if (balance.back() != c)
        fail_here(std::string("unexpected '") + c + "', expected '" + balance.back() + "'");
      balance.pop_back();
    }
    push(TokenKind::op, std::string(1, c));
    ++at_;
  }

  const std::string source_;
  std::string_view text_;
  const LexerOptions options_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const LexerOptions& options) {
  return Lexer(source, options).run();
}

}  // namespace pagoda::jinja
