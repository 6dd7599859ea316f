#include "jinja/escape.h"

#include <charconv>
#include <utility>

#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

std::string unescape(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"amp;", "&"}, {"lt;", "<"}, {"gt;", ">"}, {"quot;", "\""}, {"apos;", "'"}, {"nbsp;", "\xc2\xa0"}};
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '&') {
      out += text[at++];
      continue;
    }
    const std::string_view rest = text.substr(at + 1);
    bool found = false;
    for (const auto& [name, character] : kEntities) {
      if (!rest.starts_with(name)) continue;
      out += character;
      at += 1 + name.size();
      found = true;
      break;
    }
    if (found) continue;
    if (rest.size() > 2 && rest[0] == '#') {
      const bool hex = (rest[1] | 0x20) == 'x';
      const char* begin = rest.data() + (hex ? 2 : 1);
      std::uint32_t code = 0;
      const auto parsed = std::from_chars(begin, rest.data() + rest.size(), code, hex ? 16 : 10);
      if (parsed.ec == std::errc() && parsed.ptr != rest.data() + rest.size() && *parsed.ptr == ';' &&
          code != 0 && code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000)) {
        append_utf8(out, code);
        at += 2 + static_cast<std::size_t>(parsed.ptr - rest.data());
        continue;
      }
    }
    out += text[at++];
  }
  return out;
}

}  // namespace

void append_escaped(StringBuilder& out, const String& text) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    const char c = text.bytes[i];
    const char* entity = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '"'  ? "&#34;"
                         : c == '\'' ? "&#39;"
                                     : nullptr;
    if (entity == nullptr) continue;
    out.append(text, done, i);
    out.append(entity, !text.user_ranges.empty());
    done = i + 1;
  }
  out.append(text, done, text.bytes.size());
}

std::string strip_tags(const std::string& text) {
  std::string kept;
  std::size_t at = 0;
  for (std::size_t begin; (begin = text.find('<', at)) != std::string::npos;) {
    const bool comment = text.compare(begin, 4, "<!--") == 0;
    std::size_t end = comment ? text.find("-->", begin + 4) : text.find('>', begin);
    if (end == std::string::npos) break;
    end += comment ? 3 : 1;
    kept.append(text, at, begin - at);
    at = end;
  }
  kept.append(text, at);
  std::string joined;
  bool pending = false;
  for (std::size_t byte = 0; byte < kept.size();) {
    const std::size_t begin = byte;
    if (is_space(next_char(kept, byte))) {
      pending = !joined.empty();
      continue;
    }
    if (pending) joined += ' ';
    pending = false;
    joined.append(kept, begin, byte - begin);
  }
  return unescape(joined);
}

}  // namespace pagoda::jinja
