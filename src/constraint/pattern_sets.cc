#include "constraint/pattern_sets.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <cstdio>

#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::string_view kSetBegin = "(?&";
constexpr std::string_view kAnyText = "[^\\x00-\\x1f]*";

// One top-level alternative of a pattern, extended by any text at its unanchored ends.
std::optional<std::string> whole_alternative(std::string_view text) {
  const bool from_begin = text.starts_with('^');
  if (from_begin) text.remove_prefix(1);
  const bool dollar = text.ends_with('$');
  const std::string_view before = text.substr(0, text.size() - (dollar ? 1 : 0));
  const std::size_t last = before.find_last_not_of('\\');
  const std::size_t slashes = before.size() - (last == std::string_view::npos ? 0 : last + 1);
  const bool to_end = dollar && slashes % 2 == 0;
  if (to_end) text.remove_suffix(1);
  if (text.empty() && from_begin && to_end)
    return std::nullopt;  // the compiler has no pattern for the empty text
  return concat(from_begin ? "" : kAnyText, text.empty() ? "" : "(", text, text.empty() ? "" : ")",
                to_end ? "" : kAnyText);
}

// The length of an escape with the same meaning in both dialects; 0 if it has none.
std::size_t plain_escape(std::string_view text) {
  if (text.size() < 2) return 0;
  const char c = text[1];
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  if (!letter || std::string_view("dDwWnrtfv").find(c) != std::string_view::npos) return 2;
  return c == 'u' && text.size() >= 6 && text[2] != '{' ? 6 : c == 'x' && text.size() >= 4 ? 4 : 0;
}

}  // namespace

std::string PatternSet::pattern() const {
  if (none.empty() && all.size() == 1) return all.front();
  json::object parts;
  for (const auto& [name, list] : {std::pair("all", &all), std::pair("none", &none)}) {
    json::array texts;
    for (const std::string& one : *list)
      if (const json::value text(one); std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
    if (!texts.empty()) parts[name] = std::move(texts);
  }
  return concat(kSetBegin, json::serialize(parts), ")");
}

std::string printable_pattern(std::string_view pattern) {
  std::string out;
  for (std::size_t at = 0; at < pattern.size();) {
    const auto byte = static_cast<unsigned char>(pattern[at]);
    if (byte >= 0x20 && byte < 0x7f) {
      out.push_back(pattern[at++]);
      continue;
    }
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (at + length > pattern.size()) return "";
    std::uint32_t code = length == 1 ? byte : byte & (0xffu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i)
      code = code << 6 | (static_cast<unsigned char>(pattern[at + i]) & 0x3fu);
    if (code > 0xffff) return "";
    char escape[16];
    std::snprintf(escape, sizeof escape, "\\u%04X", code);
    out += escape;
    at += length;
  }
  return out;
}

std::optional<std::string> whole_pattern(std::string_view pattern) {
  const std::string text = printable_pattern(pattern);
  if (text.empty()) return std::nullopt;
  std::string out;
  std::size_t begin = 0;
  int depth = 0;
  bool in_class = false;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const bool end = at == text.size();
    const char c = end ? '|' : text[at];
    if (c == '\\') {
      const std::size_t length = plain_escape(std::string_view(text).substr(at));
      if (length == 0) return std::nullopt;
      at += length - 1;
    } else if (in_class) {
      if (end) return std::nullopt;
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
      const std::string_view rest = std::string_view(text).substr(at + 1);
      if (rest.starts_with('?') && !rest.starts_with("?:")) return std::nullopt;
    } else if (c == ')') {
      if (--depth < 0) return std::nullopt;
    } else if (c == '^' && (depth > 0 || at != begin)) {
      return std::nullopt;
    } else if (c == '$' && (depth > 0 || (at + 1 < text.size() && text[at + 1] != '|'))) {
      return std::nullopt;
    } else if (c == '|' && depth == 0) {
      const auto one = whole_alternative(std::string_view(text).substr(begin, at - begin));
      if (!one) return std::nullopt;
      out += concat(begin > 0 ? "|" : "", *one);
      begin = at + 1;
    }
  }
  if (depth != 0 || in_class) return std::nullopt;
  return out;
}

std::optional<PatternSet> set_of_pattern(std::string_view pattern) {
  PatternSet out;
  if (!pattern.starts_with(kSetBegin)) {
    std::optional<std::string> whole = whole_pattern(pattern);
    if (!whole) whole = printable_pattern(pattern);
    if (whole->empty()) return std::nullopt;
    out.all.push_back(*std::move(whole));
    return out;
  }
  boost::system::error_code error;
  const std::string_view inside = pattern.substr(kSetBegin.size(), pattern.size() - kSetBegin.size() - 1);
  const json::value parts = json::parse(inside, error);
  if (error || !parts.is_object()) return std::nullopt;
  for (const auto& [name, list] : {std::pair("all", &out.all), std::pair("none", &out.none)})
    if (const json::value* texts = parts.as_object().if_contains(name)) {
      if (!texts->is_array()) return std::nullopt;
      for (const json::value& text : texts->as_array()) {
        if (!text.is_string()) return std::nullopt;
        list->emplace_back(text.as_string());
      }
    }
  return out;
}

std::optional<std::string> literal_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') return "";
    if (std::string_view(".^$*+?()[]{}|").find(c) != std::string_view::npos) out.push_back('\\');
    out.push_back(c);
  }
  if (out.empty()) return std::nullopt;
  out = printable_pattern(out);
  return out.empty() ? std::nullopt : std::optional(out);
}

}  // namespace pagoda
