#include "text/answer_formats/python_literals.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/ascii.h"
#include "base/utf8.h"
#include "text/answer_formats/json_scanner.h"

namespace pagoda::answer {
namespace {

namespace json = boost::json;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool at_end() const { return at_ == text_.size(); }
  bool take(char c) {
    skip_space();
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<json::value> value(int depth = 0) {
    skip_space();
    if (at_end() || depth > static_cast<int>(kMaxJsonDepth)) return std::nullopt;
    const char c = text_[at_];
    if (c == '\'' || c == '"') return string();
    if (c == '[') return list('[', ']', depth);
    if (c == '(') return list('(', ')', depth);
    if (c == '{') return dictionary(depth);
    if (is_digit(c) || c == '-' || c == '+' || c == '.') return number();
    const std::string_view word = name();
    if (word == "None" || word == "null") return json::value(nullptr);
    if (word == "True" || word == "true") return json::value(true);
    if (word == "False" || word == "false") return json::value(false);
    const bool raw = word == "r" || word == "R";
    if (!at_end() && (text_[at_] == '\'' || text_[at_] == '"') && (raw || word == "u" || word == "b"))
      return string(raw);
    return std::nullopt;
  }

  std::optional<WrittenCall> call() {
    skip_space();
    WrittenCall call;
    for (;;) {  // tool names may contain dots and hyphens, and models reproduce them
      const std::string_view part = name();
      if (part.empty() || (is_digit(part.front()) && call.name.empty())) return std::nullopt;
      call.name += part;
      if (at_end() || (text_[at_] != '.' && text_[at_] != '-')) break;
      call.name += text_[at_++];
    }
    if (!take('(')) return std::nullopt;
    json::object arguments;
    while (!take(')')) {
      skip_space();
      const std::string_view key = name();
      if (key.empty() || !take('=')) return std::nullopt;
      std::optional<json::value> argument = value();
      if (!argument || arguments.contains(key)) return std::nullopt;
      arguments.emplace(key, *std::move(argument));
      if (take(',')) continue;
      if (!take(')')) return std::nullopt;
      break;
    }
    call.arguments = dump_json(arguments);
    return call;
  }

 private:
  std::string_view name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<json::value> number() {
    std::string digits;
    bool is_float = false;
    if (text_[at_] == '-' || text_[at_] == '+') {
      if (text_[at_] == '-') digits += '-';
      ++at_;
    }
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const bool sign =
          (c == '-' || c == '+') && !digits.empty() && (digits.back() == 'e' || digits.back() == 'E');
      if (c == '_') continue;
      if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !sign) break;
      is_float = is_float || !is_digit(c);
      digits += c;
    }
    const char* end = digits.data() + digits.size();
    if (std::int64_t whole = 0; !is_float) {
      const auto parsed = std::from_chars(digits.data(), end, whole);
      if (parsed.ec == std::errc() && parsed.ptr == end) return json::value(whole);
    }
    double value = 0;
    const auto parsed = std::from_chars(digits.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) return std::nullopt;
    return json::value(value);
  }

  std::optional<json::value> string(bool raw = false) {
    std::string out;
    do {  // adjacent strings are concatenated
      if (!one_string(out, raw)) return std::nullopt;
      skip_space();
    } while (!at_end() && (text_[at_] == '\'' || text_[at_] == '"'));
    return json::value(json::string(out));
  }

  bool one_string(std::string& out, bool raw) {
    const std::string_view rest = text_.substr(at_);
    const bool triple = rest.starts_with("'''") || rest.starts_with("\"\"\"");
    const std::string_view quote = rest.substr(0, triple ? 3 : 1);
    at_ += quote.size();
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with(quote)) {
        at_ += quote.size();
        return true;
      }
      const char c = text_[at_++];
      if (c == '\\' && raw && at_ < text_.size()) {
        out += c;
        out += text_[at_++];
      } else if (c == '\\') {
        if (!escape(out)) return false;
      } else {
        out += c;
      }
    }
    return false;
  }

  bool escape(std::string& out) {
    if (at_end()) return false;
    const char c = text_[at_++];
    switch (c) {
      case '\n':
        return true;
      case 'n':
        out += '\n';
        return true;
      case 't':
        out += '\t';
        return true;
      case 'r':
        out += '\r';
        return true;
      case 'b':
        out += '\b';
        return true;
      case 'f':
        out += '\f';
        return true;
      case 'v':
        out += '\v';
        return true;
      case 'a':
        out += '\a';
        return true;
      case '\\':
      case '\'':
      case '"':
        out += c;
        return true;
      case 'x':
        return code_point(2, out);
      case 'u':
        return code_point(4, out);
      case 'U':
        return code_point(8, out);
      default:
        if (c >= '0' && c <= '7') {
          unsigned value = static_cast<unsigned>(c - '0');
          for (int more = 0; more < 2 && !at_end() && text_[at_] >= '0' && text_[at_] <= '7'; ++more)
            value = value * 8 + static_cast<unsigned>(text_[at_++] - '0');
          append_code_point(out, value);
          return true;
        }
        out += '\\';  // Python keeps unknown escapes
        out += c;
        return true;
    }
  }

  bool code_point(std::size_t digits, std::string& out) {
    std::uint32_t value = 0;
    if (text_.size() - at_ < digits) return false;
    const char* begin = text_.data() + at_;
    const auto parsed = std::from_chars(begin, begin + digits, value, 16);
    if (parsed.ec != std::errc() || parsed.ptr != begin + digits) return false;
    at_ += digits;
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return false;
    append_code_point(out, value);
    return true;
  }

  std::optional<json::value> list(char open, char close, int depth) {
    json::array out;
    take(open);
    while (!take(close)) {
      std::optional<json::value> element = value(depth + 1);
      if (!element) return std::nullopt;
      out.push_back(*std::move(element));
      if (take(',')) continue;
      if (!take(close)) return std::nullopt;
      break;
    }
    return json::value(std::move(out));
  }

  std::optional<json::value> dictionary(int depth) {
    json::object out;
    take('{');
    while (!take('}')) {
      const std::optional<json::value> key = value(depth + 1);
      if (!key || key->is_object() || key->is_array() || !take(':')) return std::nullopt;
      std::optional<json::value> member = value(depth + 1);
      if (!member) return std::nullopt;
      if (key->is_string())
        out[key->get_string()] = *std::move(member);
      else
        out[dump_json(*key)] = *std::move(member);
      if (take(',')) continue;
      if (!take('}')) return std::nullopt;
      break;
    }
    return json::value(std::move(out));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<json::value> parse_python_literal(std::string_view text) {
  Reader reader(text);
  std::optional<json::value> value = reader.value();
  reader.skip_space();
  if (!reader.at_end()) return std::nullopt;
  return value;
}

std::optional<std::vector<WrittenCall>> parse_python_calls(std::string_view text) {
  Reader reader(text);
  std::vector<WrittenCall> calls;
  for (reader.skip_space(); !reader.at_end(); reader.skip_space()) {
    std::optional<WrittenCall> call = reader.call();
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
    reader.take(',');
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace pagoda::answer
