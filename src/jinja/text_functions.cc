#include "jinja/text_functions.h"

#include <algorithm>
#include <cstring>

#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

// Maps characters one by one; results keep the origin of their character.
template <class Map>
Value map_characters(Render& render, const String& text, const Map& map) {
  render.work(text.bytes.size());
  StringBuilder out;
  std::string piece;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t begin = at;
    const char32_t c = next_char(text.bytes, at);
    piece.clear();
    map(piece, c, begin, at);
    out.append(piece, is_user_at(text, begin));
  }
  return out.take(render, text.markup);
}

// Σ at the end of a word becomes ς (Unicode's Final_Sigma), the only context rule of lower().
void append_lower_at(std::string& out, std::string_view text, char32_t c, std::size_t begin,
                     std::size_t end) {
  if (c != 0x3A3) return append_lower(out, c);
  bool before = false, after = false;
  for (std::size_t at = begin; at > 0;) {
    const char32_t previous = previous_char(text, at);
    if (is_case_ignorable(previous)) continue;
    before = is_cased(previous);
    break;
  }
  for (std::size_t at = end; before && at < text.size();) {
    const char32_t next = next_char(text, at);
    if (is_case_ignorable(next)) continue;
    after = is_cased(next);
    break;
  }
  append_utf8(out, before && !after ? 0x3C2 : 0x3C3);
}

}  // namespace

bool is_user_at(const String& text, std::size_t byte) {
  const auto range = std::upper_bound(text.user_ranges.begin(), text.user_ranges.end(), byte,
                                      [](std::size_t at, const ByteRange& r) { return at < r.end; });
  return range != text.user_ranges.end() && range->begin <= byte;
}

Value strip(Render& render, const String& text, const String* chars, Sides sides) {
  render.work(text.bytes.size());
  std::u32string set;
  if (chars != nullptr) {
    render.work(chars->bytes.size() * 16);  // sorting takes longer than a scan
    for (std::size_t at = 0; at < chars->bytes.size();) set.push_back(next_char(chars->bytes, at));
    std::sort(set.begin(), set.end());
  }
  const auto goes = [&](char32_t c) {
    return chars == nullptr ? is_space(c) : std::binary_search(set.begin(), set.end(), c);
  };
  std::size_t begin = 0, end = text.bytes.size();
  while (sides != Sides::right && begin < end) {
    std::size_t next = begin;
    if (!goes(next_char(text.bytes, next))) break;
    begin = next;
  }
  while (sides != Sides::left && end > begin) {
    std::size_t previous = end;
    if (!goes(previous_char(text.bytes, previous))) break;
    end = previous;
  }
  return substring(render, text, begin, end);
}

Value replace(Render& render, const String& text, const String& old, const String& with, std::int64_t count) {
  render.work(text.bytes.size());
  StringBuilder out;
  std::size_t done = 0;
  const auto put = [&] {
    render.step();
    render.work(with.bytes.size());
    out.append(with);
    render.check_size(out.size());
  };
  if (old.bytes.empty()) {  // before every character and at the end
    for (std::size_t at = 0; count != 0; --count) {
      put();
      if (at == text.bytes.size()) break;
      next_char(text.bytes, at);
      out.append(text, done, at);
      done = at;
    }
  } else {
    for (std::size_t at;
         count != 0 && (at = find_bytes(text.bytes, old.bytes, done)) != std::string_view::npos; --count) {
      out.append(text, done, at);
      put();
      done = at + old.bytes.size();
    }
  }
  out.append(text, done, text.bytes.size());
  render.check_size(out.size());
  return out.take(render, text.markup);
}

Value to_upper(Render& render, const String& text) {
  return map_characters(render, text,
                        [](std::string& out, char32_t c, std::size_t, std::size_t) { append_upper(out, c); });
}

Value to_lower(Render& render, const String& text) {
  return map_characters(render, text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    append_lower_at(out, text.bytes, c, begin, end);
  });
}

Value capitalize(Render& render, const String& text) {
  return map_characters(render, text, [&](std::string& out, char32_t c, std::size_t begin, std::size_t end) {
    if (begin == 0) {
      append_title(out, c);
    } else {
      append_lower_at(out, text.bytes, c, begin, end);
    }
  });
}

Value center(Render& render, const String& text, std::int64_t width, std::string_view fill) {
  const std::int64_t missing = padding(text, width);
  render.check_size(text.bytes.size() + static_cast<std::size_t>(missing) * fill.size());
  render.work(static_cast<std::size_t>(missing));
  const std::int64_t left = missing / 2 + (missing & width & 1);
  StringBuilder out;
  for (std::int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (std::int64_t i = left; i < missing; ++i) out.append(fill);
  return out.take(render, text.markup);
}

std::vector<Value> split_lines(Render& render, const String& text, bool keep_ends) {
  render.work(text.bytes.size());
  std::vector<Value> lines;
  for (std::size_t begin = 0; begin < text.bytes.size();) {
    std::size_t end = begin, next = begin;
    while (end < text.bytes.size()) {
      const char32_t c = next_char(text.bytes, next);
      if (is_line_break(c)) {
        if (c == '\r' && next < text.bytes.size() && text.bytes[next] == '\n') ++next;
        break;
      }
      end = next;
    }
    render.step();
    lines.push_back(substring(render, text, begin, keep_ends ? next : end));
    begin = next;
  }
  return lines;
}

std::vector<Value> split_space(Render& render, const String& text, std::int64_t max_splits) {
  render.work(text.bytes.size());
  std::vector<Value> parts;
  const std::string& bytes = text.bytes;
  const auto skip = [&](std::size_t at, bool space) {
    while (at < bytes.size()) {
      std::size_t next = at;
      if (is_space(next_char(bytes, next)) != space) break;
      at = next;
    }
    return at;
  };
  for (std::size_t begin = skip(0, true); begin < bytes.size();) {
    render.step();
    if (max_splits-- == 0) {  // the rest unchanged, including trailing white space
      parts.push_back(substring(render, text, begin, bytes.size()));
      break;
    }
    const std::size_t end = skip(begin, false);
    parts.push_back(substring(render, text, begin, end));
    begin = skip(end, true);
  }
  return parts;
}

std::vector<Value> split_on(Render& render, const String& text, const String& separator,
                            std::int64_t max_splits, bool from_right) {
  if (separator.bytes.empty()) value_error("empty separator");
  render.work(text.bytes.size());
  std::vector<Value> parts;
  if (from_right) {
    if (separator.bytes.size() > 16)
      render.work(text.bytes.size() / 16 * separator.bytes.size());  // rfind is quadratic
    std::size_t end = text.bytes.size();
    while (max_splits-- != 0) {
      if (end < separator.bytes.size()) break;
      const std::size_t at = std::string_view(text.bytes).substr(0, end).rfind(separator.bytes);
      if (at == std::string_view::npos) break;
      render.step();
      parts.push_back(substring(render, text, at + separator.bytes.size(), end));
      end = at;
    }
    parts.push_back(substring(render, text, 0, end));
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  std::size_t begin = 0;
  while (max_splits-- != 0) {
    const std::size_t at = find_bytes(text.bytes, separator.bytes, begin);
    if (at == std::string_view::npos) break;
    render.step();
    parts.push_back(substring(render, text, begin, at));
    begin = at + separator.bytes.size();
  }
  parts.push_back(substring(render, text, begin, text.bytes.size()));
  return parts;
}

Value join(Render& render, const String& separator, const std::vector<Value>& items) {
  StringBuilder out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out.append(separator);
    append_string(render, out, items[i]);
    render.step();
    render.check_size(out.size());
  }
  return out.take(render, separator.markup);
}

Value reverse_text(Render& render, const String& text) {
  render.work(text.bytes.size());
  StringBuilder out;
  for (std::size_t end = text.bytes.size(); end > 0;) {
    std::size_t begin = end;
    previous_char(text.bytes, begin);
    out.append(text, begin, end);
    end = begin;
  }
  return out.take(render, text.markup);
}

}  // namespace pagoda::jinja
