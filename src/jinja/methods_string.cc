// Methods of str, except the predicates.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "jinja/escape.h"
#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/repr.h"
#include "jinja/str_format.h"
#include "jinja/text_functions.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

const String* optional_chars(const Bound& bound) { return bound.has_value(0) ? &bound.string(0) : nullptr; }

template <Sides sides>
Value method_strip(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"/chars"});
  return strip(render, self.text(), optional_chars(bound), sides);
}

template <Value (*function)(Render&, const String&)>
Value method_plain(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("method", arguments, {});
  return function(render, self.text());
}

// Maps each character with `map(piece, character, its lower case)`. The lower case is computed for the whole
// text, because that of sigma depends on its context.
template <class Map>
Value map_with_lower(Render& render, const String& text, const Map& map) {
  StringBuilder out;
  const Value lower = to_lower(render, text);
  for (std::size_t at = 0, lower_at = 0; at < text.bytes.size();) {
    const std::size_t begin = at;
    const char32_t c = next_char(text.bytes, at);
    std::string alone;
    append_lower(alone, c);
    const std::string_view lowered = std::string_view(lower.text().bytes).substr(lower_at, alone.size());
    lower_at += alone.size();  // both forms of sigma have the same length
    std::string piece;
    map(piece, c, lowered);
    out.append(piece, is_user_at(text, begin));
  }
  return out.take(render, text.markup);
}

Value title(Render& render, const String& text) {
  bool in_word = false;
  return map_with_lower(render, text, [&](std::string& piece, char32_t c, std::string_view lowered) {
    if (in_word) {
      piece = lowered;
    } else {
      append_title(piece, c);
    }
    in_word = is_cased(c);
  });
}

Value swapcase(Render& render, const String& text) {
  return map_with_lower(render, text, [](std::string& piece, char32_t c, std::string_view lowered) {
    if (is_upper(c)) {
      piece = lowered;
    } else if (is_lower(c)) {
      append_upper(piece, c);
    } else {
      append_utf8(piece, c);
    }
  });
}

Value casefold(Render& render, const String& text) {
  render.work(text.bytes.size());
  std::string out;
  for (std::size_t at = 0; at < text.bytes.size();) append_folded(out, next_char(text.bytes, at));
  render.charge(out.size());
  return Value::string(std::move(out), !text.user_ranges.empty(), text.markup);
}

Value method_split(Render& render, const Value& self, const Arguments& arguments, bool from_right) {
  const Bound bound(from_right ? "rsplit" : "split", arguments, {"sep", "maxsplit"});
  const std::int64_t max_splits = std::max<std::int64_t>(bound.integer(1, -1), -1);
  if (bound.has_value(0)) {
    return Value::list(split_on(render, self.text(), bound.string(0), max_splits, from_right));
  }
  if (!from_right || max_splits < 0) return Value::list(split_space(render, self.text(), max_splits));
  // From the right: splits everything, then rejoins the first parts with the original white space.
  const Value stripped = strip(render, self.text(), nullptr, Sides::right);
  const String& text = stripped.text();
  std::vector<Value> parts;
  std::size_t end = text.bytes.size();
  for (std::int64_t splits = max_splits; end > 0 && splits > 0; --splits) {
    render.step();
    std::size_t begin = end;
    for (std::size_t previous = begin; begin > 0 && !is_space(previous_char(text.bytes, previous));
         begin = previous) {
    }
    parts.push_back(substring(render, text, begin, end));
    end = begin;
    for (std::size_t previous = end; end > 0 && is_space(previous_char(text.bytes, previous));
         end = previous) {
    }
  }
  if (end > 0) parts.push_back(substring(render, text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return Value::list(std::move(parts));
}
Value method_split_left(Render& render, const Value& self, const Arguments& arguments) {
  return method_split(render, self, arguments, false);
}
Value method_split_right(Render& render, const Value& self, const Arguments& arguments) {
  return method_split(render, self, arguments, true);
}

Value method_split_lines(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  return Value::list(split_lines(render, self.text(), bound.flag(0, false)));
}

// The characters [start, end) of the optional arguments, as bytes; nullopt if start is beyond the end.
struct Part {
  std::size_t begin, end;
};
std::optional<Part> part(Render& render, const String& text, const Bound& bound, std::size_t first) {
  if (!bound.has_value(first) && !bound.has_value(first + 1)) return Part{0, text.bytes.size()};
  render.work(text.bytes.size());
  const auto at = [&](std::size_t index, std::int64_t fallback) {
    if (!bound.has_value(index)) return fallback;
    std::int64_t value = bound.integer(index, 0);
    if (value < 0) value = std::max<std::int64_t>(value + text.num_chars, 0);
    return value;
  };
  const std::int64_t start = at(first, 0);
  const std::int64_t end = std::min(at(first + 1, text.num_chars), text.num_chars);
  if (start > end) return std::nullopt;
  return Part{byte_offset(text.bytes, start), byte_offset(text.bytes, end)};
}

Value method_affix(Render& render, const Value& self, const Arguments& arguments, bool at_end) {
  const Bound bound(at_end ? "endswith" : "startswith", arguments, {"/affix", "/start", "/end"}, 1);
  const auto range = part(render, self.text(), bound, 1);
  const auto matches = [&](const String& affix) {
    render.work(affix.bytes.size());
    if (!range) return false;
    const std::string_view text =
        std::string_view(self.text().bytes).substr(range->begin, range->end - range->begin);
    return at_end ? text.ends_with(affix.bytes) : text.starts_with(affix.bytes);
  };
  if (!bound[0].is(Kind::tuple)) return Value::boolean(matches(bound.string(0)));
  for (const Value& affix : bound[0].items()) {
    if (matches(expect_string(affix, "startswith"))) return Value::boolean(true);
  }
  return Value::boolean(false);
}
Value method_starts_with(Render& render, const Value& self, const Arguments& arguments) {
  return method_affix(render, self, arguments, false);
}
Value method_ends_with(Render& render, const Value& self, const Arguments& arguments) {
  return method_affix(render, self, arguments, true);
}

// Position in characters, or -1.
std::int64_t search(Render& render, const Value& self, const Arguments& arguments, bool from_right) {
  const Bound bound("find", arguments, {"/sub", "/start", "/end"}, 1);
  const String& text = self.text();
  const String& needle = bound.string(0);
  render.work(text.bytes.size());
  const auto range = part(render, text, bound, 1);
  if (!range) return -1;
  const std::string_view view = std::string_view(text.bytes).substr(range->begin, range->end - range->begin);
  std::size_t at = std::string_view::npos;
  if (from_right) {
    if (needle.bytes.size() > 16) render.work(view.size() / 16 * needle.bytes.size());  // rfind is quadratic
    at = view.rfind(needle.bytes);
  } else if (const void* found = memmem(view.data(), view.size(), needle.bytes.data(), needle.bytes.size())) {
    at = static_cast<std::size_t>(static_cast<const char*>(found) - view.data());
  }
  if (at == std::string_view::npos) return -1;
  std::int64_t characters = 0;
  for (std::size_t byte = 0; byte < range->begin + at; next_char(text.bytes, byte)) ++characters;
  return characters;
}
template <bool from_right>
Value method_find(Render& render, const Value& self, const Arguments& arguments) {
  return Value::integer(search(render, self, arguments, from_right));
}
template <bool from_right>
Value method_index(Render& render, const Value& self, const Arguments& arguments) {
  const std::int64_t at = search(render, self, arguments, from_right);
  if (at < 0) value_error("substring not found");
  return Value::integer(at);
}

Value method_count(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"/sub", "/start", "/end"}, 1);
  const String& needle = bound.string(0);
  render.work(self.text().bytes.size());
  const auto range = part(render, self.text(), bound, 1);
  if (!range) return Value::integer(0);
  const Value view = substring(render, self.text(), range->begin, range->end);
  if (needle.bytes.empty()) return Value::integer(view.text().num_chars + 1);
  return Value::integer(static_cast<std::int64_t>(split_on(render, view.text(), needle, -1, false).size()) -
                        1);
}

Value method_replace(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"/old", "/new", "/count"}, 2);
  const std::int64_t count = std::max<std::int64_t>(bound.integer(2, -1), -1);
  if (!self.text().markup || bound.string(1).markup) {
    return replace(render, self.text(), bound.string(0), bound.string(1), count);
  }
  StringBuilder escaped;
  append_escaped(escaped, bound.string(1));
  const Value with = escaped.take(render);
  return replace(render, self.text(), bound.string(0), with.text(), count);
}

Value method_join(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"/iterable"}, 1);
  const std::vector<Value> items = to_vector(render, bound[0]);
  for (const Value& item : items) {
    if (!item.is_string()) {
      type_error("sequence item: expected str instance, " + std::string(type_name(item)) + " found");
    }
  }
  return join(render, self.text(), items);
}

template <bool is_prefix>
Value method_remove(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound(is_prefix ? "removeprefix" : "removesuffix", arguments, {"/affix"}, 1);
  const String& text = self.text();
  const std::size_t length = bound.string(0).bytes.size();
  render.work(length);
  if (is_prefix && text.bytes.starts_with(bound.string(0).bytes))
    return substring(render, text, length, text.bytes.size());
  if (!is_prefix && text.bytes.ends_with(bound.string(0).bytes))
    return substring(render, text, 0, text.bytes.size() - length);
  return self;
}

template <bool from_right>
Value method_partition(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"/sep"}, 1);
  const String& text = self.text();
  const String& separator = bound.string(0);
  if (separator.bytes.empty()) value_error("empty separator");
  render.work(text.bytes.size());
  if (separator.bytes.size() > 16) render.work(text.bytes.size() / 16 * separator.bytes.size());
  const std::size_t at = from_right ? text.bytes.rfind(separator.bytes) : text.bytes.find(separator.bytes);
  const Value empty = substring(render, text, 0, 0);
  if (at == std::string::npos)
    return from_right ? Value::tuple({empty, empty, self}) : Value::tuple({self, empty, empty});
  const std::size_t end = at + separator.bytes.size();
  return Value::tuple({substring(render, text, 0, at), substring(render, text, at, end),
                       substring(render, text, end, text.bytes.size())});
}

std::string fill_character(const Bound& bound) {
  if (!bound.has(1)) return " ";
  if (bound.string(1).num_chars != 1) type_error("The fill character must be exactly one character long");
  return bound.string(1).bytes;
}
Value method_center(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("center", arguments, {"/width", "/fillchar"}, 1);
  return center(render, self.text(), bound.integer(0, 0), fill_character(bound));
}
template <bool left>
Value method_just(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("ljust", arguments, {"/width", "/fillchar"}, 1);
  const String& text = self.text();
  const std::string fill = fill_character(bound);
  const std::int64_t missing = padding(text, bound.integer(0, 0));
  render.check_size(text.bytes.size() + static_cast<std::size_t>(missing) * fill.size());
  render.work(static_cast<std::size_t>(missing));
  StringBuilder out;
  if (left) out.append(text);
  for (std::int64_t i = 0; i < missing; ++i) out.append(fill);
  if (!left) out.append(text);
  return out.take(render, text.markup);
}

Value method_zfill(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"/width"}, 1);
  const String& text = self.text();
  const std::int64_t missing = padding(text, bound.integer(0, 0));
  render.check_size(text.bytes.size() + static_cast<std::size_t>(missing));
  render.work(static_cast<std::size_t>(missing));
  const std::size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  StringBuilder out;
  out.append(text, 0, sign);
  out.append(std::string(static_cast<std::size_t>(missing), '0'));
  out.append(text, sign, text.bytes.size());
  return out.take(render, text.markup);
}

Value method_expand_tabs(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("expandtabs", arguments, {"tabsize"});
  const std::int64_t size = bound.integer(0, 8);
  render.check_size(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
  render.work(self.text().bytes.size());
  StringBuilder out;
  std::int64_t column = 0;
  for (std::size_t at = 0; at < self.text().bytes.size();) {
    const std::size_t begin = at;
    const char32_t c = next_char(self.text().bytes, at);
    if (c == '\t') {
      const std::int64_t spaces = size > 0 ? size - column % size : 0;
      out.append(std::string(static_cast<std::size_t>(spaces), ' '));
      render.work(static_cast<std::size_t>(spaces));
      column += spaces;
    } else {
      out.append(self.text(), begin, at);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    render.check_size(out.size());
  }
  return out.take(render, self.text().markup);
}

Value method_format(Render& render, const Value& self, const Arguments& arguments) {
  return format_string(render, self.text(), arguments);
}
Value method_format_map(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("format_map", arguments, {"/mapping"}, 1);
  if (!bound[0].is(Kind::dict)) type_error("format_map() argument must be a mapping");
  Arguments keywords;
  for (const auto& [key, value] : bound[0].entries().entries) {
    if (!key.is_string()) continue;
    render.work(key.text().bytes.size());
    keywords.keyword.emplace_back(key.text().bytes, value);
  }
  return format_string(render, self.text(), keywords);
}

Value method_encode(Render&, const Value&, const Arguments&) { type_error("str.encode() is not supported"); }

constexpr NamedFunction kMethods[] = {
    {"capitalize", method_plain<capitalize>},
    {"casefold", method_plain<casefold>},
    {"center", method_center},
    {"count", method_count},
    {"encode", method_encode},
    {"endswith", method_ends_with},
    {"expandtabs", method_expand_tabs},
    {"find", method_find<false>},
    {"format", method_format},
    {"format_map", method_format_map},
    {"index", method_index<false>},
    {"join", method_join},
    {"ljust", method_just<true>},
    {"lower", method_plain<to_lower>},
    {"lstrip", method_strip<Sides::left>},
    {"partition", method_partition<false>},
    {"removeprefix", method_remove<true>},
    {"removesuffix", method_remove<false>},
    {"replace", method_replace},
    {"rfind", method_find<true>},
    {"rindex", method_index<true>},
    {"rjust", method_just<false>},
    {"rpartition", method_partition<true>},
    {"rsplit", method_split_right},
    {"rstrip", method_strip<Sides::right>},
    {"split", method_split_left},
    {"splitlines", method_split_lines},
    {"startswith", method_starts_with},
    {"strip", method_strip<Sides::both>},
    {"swapcase", method_plain<swapcase>},
    {"title", method_plain<title>},
    {"upper", method_plain<to_upper>},
    {"zfill", method_zfill},
};

}  // namespace

const NamedFunction* find_string_method(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [name](const NamedFunction& entry) { return entry.name == name; });
  return found == std::end(kMethods) ? find_string_question(name) : found;
}

}  // namespace pagoda::jinja
