// Filters on strings.
#include <algorithm>

#include "jinja/filter_tables.h"
#include "jinja/json_dump.h"
#include "jinja/printf_format.h"
#include "jinja/repr.h"
#include "jinja/text_functions.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

template <Value (*function)(Render&, const String&)>
Value mapped(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("filter", arguments, {});
  const Value text = to_soft_string(render, value);
  return function(render, text.text());
}

// Uppercases letters after white space, '-', '(', '{', '[' and '<'; lowercases all others.
Value title_filter(Render& render, const String& text) {
  StringBuilder out;
  const auto splits = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  for (std::size_t begin = 0; begin < text.bytes.size();) {
    std::size_t end = begin;
    const char32_t first = next_char(text.bytes, end);
    if (splits(first)) {
      out.append(text, begin, end);
      begin = end;
      continue;
    }
    const std::size_t second = end;
    while (end < text.bytes.size()) {
      std::size_t next = end;
      if (splits(next_char(text.bytes, next))) break;
      end = next;
    }
    const Value head = substring(render, text, begin, second), tail = substring(render, text, second, end);
    out.append(to_upper(render, head.text()).text());
    out.append(to_lower(render, tail.text()).text());
    begin = end;
  }
  return out.take(render);
}

Value filter_trim(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const Value text = to_soft_string(render, value);
  return strip(render, text.text(), bound.has_value(0) ? &bound.string(0) : nullptr, Sides::both);
}

Value filter_replace(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const Value text = to_string(render, value), old = to_string(render, bound[0]),
              with = to_string(render, bound[1]);
  return replace(render, text.text(), old.text(), with.text(),
                 bound.has_value(2) ? std::max<std::int64_t>(bound.integer(2, -1), -1) : -1);
}

Value filter_string(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return to_soft_string(render, value);
}

Value filter_center(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  const Value text = to_soft_string(render, value);
  return center(render, text.text(), bound.integer(0, 80), " ");
}

Value filter_format(Render& render, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keyword.empty()) {
    type_error("can't handle positional and keyword arguments at the same time");
  }
  const Value text = to_soft_string(render, value);
  if (arguments.keyword.empty())
    return format_printf(render, text.text(), Value::tuple(arguments.positional));
  Dict values;
  for (const auto& [key, argument] : arguments.keyword) render.set(values, Value::string(key), argument);
  return format_printf(render, text.text(), Value::dict(std::move(values)));
}

Value filter_indent(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  if (value.is_undefined()) fail_undefined(value);
  const String& text = expect_string(value, "indent");
  Value indention;
  if (bound.has(0) && bound[0].is_string()) {
    indention = bound[0];
  } else {
    const std::int64_t width = std::max<std::int64_t>(bound.integer(0, 4), 0);
    render.check_size(static_cast<std::size_t>(width));
    render.work(static_cast<std::size_t>(width));
    indention = Value::string(std::string(static_cast<std::size_t>(width), ' '));
  }
  const bool blank = bound.flag(2, false);
  StringBuilder whole;
  whole.append(text);
  // A quirk of jinja2: an empty text has one line, and a trailing newline adds another one.
  whole.append("\n");
  const Value with_newline = whole.take(render);
  const std::vector<Value> lines = split_lines(render, with_newline.text(), false);
  StringBuilder out;
  if (bound.flag(1, false)) out.append(indention.text());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) {
      out.append("\n");
      if (blank || !lines[i].text().bytes.empty()) out.append(indention.text());
      render.work(indention.text().bytes.size());
    }
    out.append(lines[i].text());
    render.check_size(out.size());
  }
  return out.take(render, text.markup);
}

Value filter_truncate(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Value end = bound.get(2, Value::string("..."));
  const std::int64_t length = bound.integer(0, 255);
  const std::int64_t leeway = bound.has_value(3) ? bound.integer(3, 5) : 5;
  const std::int64_t end_length = expect_string(end, "truncate").num_chars;
  if (length < end_length || leeway < 0)
    value_error("truncate: the length must hold the end, the leeway be positive");
  const std::optional<std::int64_t> have = length_of(render, value);
  if (!have) type_error("object of type '" + std::string(type_name(value)) + "' has no len()");
  if (*have - leeway <= length) return value;
  const String& text = expect_string(value, "truncate");
  render.work(text.bytes.size());
  Value cut = substring(render, text, 0, byte_offset(text.bytes, length - end_length));
  if (!bound.flag(1, false)) {
    const std::size_t space = cut.text().bytes.rfind(' ');
    if (space != std::string::npos) cut = substring(render, cut.text(), 0, space);
  }
  StringBuilder out;
  out.append(cut.text());
  out.append(end.text());
  return out.take(render, text.markup);
}

Value filter_word_count(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("wordcount", arguments, {});
  const Value text = to_soft_string(render, value);
  render.work(text.text().bytes.size());
  std::int64_t count = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.text().bytes.size();) {
    const char32_t c = next_char(text.text().bytes, at);
    const bool word = c == '_' || is_alnum(c);
    count += word && !in_word ? 1 : 0;
    in_word = word;
  }
  return Value::integer(count);
}

// textwrap.wrap for one line. Breaks at white space, after hyphens between letters, and inside words that are
// longer than the width.
class Wrapper {
 public:
  Wrapper(Render& render, std::int64_t width, bool break_long_words, bool break_on_hyphens)
      : render_(render),
        width_(width),
        break_long_words_(break_long_words),
        break_on_hyphens_(break_on_hyphens) {}

  std::vector<Value> wrap(const String& text) {
    std::vector<Value> chunks = split(text);
    std::reverse(chunks.begin(), chunks.end());
    std::vector<Value> lines;
    while (!chunks.empty()) {
      render_.step();
      std::vector<Value> line;
      std::int64_t length = 0;
      if (is_blank(chunks.back()) && !lines.empty()) chunks.pop_back();
      while (!chunks.empty() && length + chunks.back().text().num_chars <= width_) {
        length += chunks.back().text().num_chars;
        line.push_back(chunks.back());
        chunks.pop_back();
      }
      if (!chunks.empty() && chunks.back().text().num_chars > width_) long_word(chunks, line, length);
      if (!line.empty() && is_blank(line.back())) line.pop_back();
      if (line.empty()) continue;
      const Value nothing = Value::string("");
      lines.push_back(join(render_, nothing.text(), line));
    }
    return lines;
  }

 private:
  static bool is_wrap_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  static bool is_blank(const Value& chunk) {
    const std::string& bytes = chunk.text().bytes;
    return std::all_of(bytes.begin(), bytes.end(), is_wrap_space);
  }

  void long_word(std::vector<Value>& chunks, std::vector<Value>& line, std::int64_t length) const {
    const std::int64_t space = width_ < 1 ? 1 : width_ - length;
    if (break_long_words_) {
      const Value chunk = chunks.back();
      const String& text = chunk.text();
      std::int64_t end = space;
      if (break_on_hyphens_ && text.num_chars > space) {
        const std::string_view head = std::string_view(text.bytes).substr(0, byte_offset(text.bytes, space));
        const std::size_t hyphen = head.rfind('-');
        if (hyphen != std::string_view::npos && hyphen > 0 &&
            head.substr(0, hyphen).find_first_not_of('-') != std::string_view::npos) {
          end = 0;
          for (std::size_t byte = 0; byte <= hyphen; next_char(head, byte)) ++end;
        }
      }
      const std::size_t cut = byte_offset(text.bytes, end);
      line.push_back(substring(render_, text, 0, cut));
      chunks.back() = substring(render_, text, cut, text.bytes.size());
    } else if (line.empty()) {
      line.push_back(chunks.back());
      chunks.pop_back();
    }
  }

  // Alternating white space and words; words are also split after hyphens that follow two letters and precede
  // one.
  std::vector<Value> split(const String& text) const {
    render_.work(text.bytes.size());
    std::vector<Value> chunks;
    const std::string& bytes = text.bytes;
    for (std::size_t begin = 0; begin < bytes.size();) {
      const bool space = is_wrap_space(bytes[begin]);
      std::size_t end = begin;
      while (end < bytes.size() && is_wrap_space(bytes[end]) == space) {
        ++end;
        if (!space && break_on_hyphens_ && breaks_after(bytes, begin, end)) break;
      }
      render_.step();
      chunks.push_back(substring(render_, text, begin, end));
      begin = end;
    }
    return chunks;
  }
  static bool is_letter(const std::string& bytes, std::size_t at) {
    return at < bytes.size() && is_alpha(next_char(bytes, at));
  }
  static bool breaks_after(const std::string& bytes, std::size_t begin, std::size_t end) {
    if (end - begin < 3 || bytes[end - 1] != '-' || !is_letter(bytes, end)) return false;
    std::size_t at = end - 1;
    if (!is_alpha(previous_char(bytes, at)) || at <= begin) return false;
    if (!is_alpha(previous_char(bytes, at))) return false;
    std::size_t next = end;
    next_char(bytes, next);
    return is_letter(bytes, next) ||
           (next < bytes.size() && bytes[next] == '-' && is_letter(bytes, next + 1));
  }

  Render& render_;
  const std::int64_t width_;
  const bool break_long_words_, break_on_hyphens_;
};

Value filter_word_wrap(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("wordwrap", arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  if (value.is_undefined()) fail_undefined(value);
  const String& text = expect_string(value, "wordwrap");
  const std::int64_t width = bound.integer(0, 79);
  if (width <= 0) value_error("invalid width (must be > 0)");
  const Value separator = bound.has_value(2) ? bound[2] : Value::string("\n");
  expect_string(separator, "wordwrap");
  Wrapper wrapper(render, width, bound.flag(1, true), bound.flag(3, true));
  std::vector<Value> paragraphs;
  for (const Value& line : split_lines(render, text, false)) {
    paragraphs.push_back(join(render, separator.text(), wrapper.wrap(line.text())));
  }
  return join(render, separator.text(), paragraphs);
}

Value filter_to_json(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = bound.flag(0, false);
  if (bound.has_value(1)) {
    options.item_separator = ",";
    if (bound[1].is_string()) {
      render.work(bound[1].text().bytes.size());
      options.indent = bound[1].text().bytes;
    } else {
      const std::int64_t width = std::max<std::int64_t>(bound.integer(1, 0), 0);
      render.check_size(static_cast<std::size_t>(width));
      render.work(static_cast<std::size_t>(width));
      options.indent = std::string(static_cast<std::size_t>(width), ' ');
    }
  }
  if (bound.has_value(2)) {
    const std::vector<Value> separators = to_vector(render, bound[2]);
    if (separators.size() != 2) value_error("tojson: separators must be a pair");
    options.item_separator = expect_string(separators[0], "tojson").bytes;
    options.key_separator = expect_string(separators[1], "tojson").bytes;
    render.work(options.item_separator.size() + options.key_separator.size());
  }
  options.sort_keys = bound.flag(3, false);
  return dump_json(render, value, options);
}

constexpr NamedFunction kTextFilters[] = {
    {"capitalize", mapped<capitalize>}, {"center", filter_center},
    {"format", filter_format},          {"indent", filter_indent},
    {"lower", mapped<to_lower>},        {"replace", filter_replace},
    {"string", filter_string},          {"title", mapped<title_filter>},
    {"tojson", filter_to_json},         {"trim", filter_trim},
    {"truncate", filter_truncate},      {"upper", mapped<to_upper>},
    {"wordcount", filter_word_count},   {"wordwrap", filter_word_wrap},
};

}  // namespace

std::span<const NamedFunction> text_filters() { return kTextFilters; }

}  // namespace pagoda::jinja
