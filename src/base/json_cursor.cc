#include "base/json_cursor.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {
constexpr int kMaxDepth = 64;
}  // namespace

Status JsonCursor::error(std::string_view what) const {
  return corrupt_data(concat("JSON: ", what, " at byte ", at_));
}

char JsonCursor::peek() {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::accept(char c) {
  if (peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

Status JsonCursor::expect(char c) {
  if (accept(c)) return ok_status();
  return error(concat("'", c, "' expected"));
}

Status JsonCursor::expect_end() {
  peek();
  return at_ == text_.size() ? ok_status() : error("more text than one value");
}

Status JsonCursor::read_string(std::string& out) {
  out.clear();
  PAGODA_RETURN_IF_ERROR(expect('"'));
  const auto unit = [&](std::uint32_t& value) {
    if (at_ + 4 > text_.size()) return false;
    const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, value, 16);
    if (code != std::errc() || end != text_.data() + at_ + 4) return false;
    at_ += 4;
    return true;
  };
  while (true) {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
           static_cast<unsigned char>(text_[end]) >= 0x20)
      ++end;
    out += text_.substr(at_, end - at_);
    at_ = end;
    if (at_ >= text_.size()) return error("a string does not end");
    const char c = text_[at_++];
    if (c == '"') break;
    if (c != '\\') return error("a control character in a string");
    if (at_ >= text_.size()) return error("a string does not end");
    const char escape = text_[at_++];
    switch (escape) {
      case '"':
      case '\\':
      case '/':
        out += escape;
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        std::uint32_t value = 0;
        if (!unit(value)) return error("a bad \\u escape");
        if (value >= 0xD800 && value < 0xDC00) {
          std::uint32_t low = 0;
          if (!text_.substr(at_).starts_with("\\u")) return error("half a surrogate pair");
          at_ += 2;
          if (!unit(low) || low < 0xDC00 || low > 0xDFFF) return error("half a surrogate pair");
          value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
        } else if (value >= 0xDC00 && value < 0xE000) {
          return error("half a surrogate pair");
        }
        append_code_point(out, value);
        break;
      }
      default:
        return error("an unknown escape");
    }
  }
  return is_valid_utf8(out) ? ok_status() : error("a string is not UTF-8");
}

Status JsonCursor::raw_string(std::string_view& out) {
  PAGODA_RETURN_IF_ERROR(expect('"'));
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != '"') {
    // memchr skips most of a string, up to the next escape.
    const std::size_t quote = std::min(text_.find('"', at_), text_.size());
    const std::size_t escape = text_.substr(at_, quote - at_).find('\\');
    at_ = escape == std::string_view::npos ? quote : at_ + escape + 2;
  }
  if (at_ >= text_.size()) {
    at_ = text_.size();
    return error("a string does not end");
  }
  out = text_.substr(begin, at_ - begin);
  ++at_;
  return ok_status();
}

std::string_view JsonCursor::number_text() {
  peek();
  std::size_t end = at_;
  while (end < text_.size() && std::string_view("+-.eE0123456789").find(text_[end]) != std::string_view::npos)
    ++end;
  const std::string_view number = text_.substr(at_, end - at_);
  at_ = end;
  return number;
}

Status JsonCursor::read_integer(std::int64_t& out) {
  const std::string_view number = number_text();
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), out);
  if (code != std::errc() || end != number.data() + number.size()) return error("an integer expected");
  return ok_status();
}

Status JsonCursor::read_number(double& out) {
  const std::string_view number = number_text();
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), out);
  if (code != std::errc() || end != number.data() + number.size()) return error("a number expected");
  return ok_status();
}

Status JsonCursor::raw_value(std::string_view& out) {
  peek();
  const std::size_t begin = at_;
  int depth = 0;
  while (true) {
    const char c = peek();
    if (c == '\0') return error("a value is missing");
    if (c == '"') {
      std::string_view unused;
      PAGODA_RETURN_IF_ERROR(raw_string(unused));
    } else if (c == '{' || c == '[') {
      ++at_;
      if (++depth > kMaxDepth) return error("values are nested too deep");
      continue;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return error("a value is missing");
      ++at_;
      --depth;
    } else if (c == ',' || c == ':') {
      if (depth == 0) return error("a value is missing");
      ++at_;
      continue;
    } else {
      while (at_ < text_.size() && !is_blank(text_[at_]) &&
             std::string_view(",:{}[]\"").find(text_[at_]) == std::string_view::npos)
        ++at_;
    }
    if (depth == 0) break;
  }
  out = text_.substr(begin, at_ - begin);
  return ok_status();
}

}  // namespace pagoda
