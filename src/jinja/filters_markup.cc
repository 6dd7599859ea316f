// Filters for HTML and URLs, and pprint: rare in chat templates.
#include <algorithm>
#include <cstdio>

#include "jinja/escape.h"
#include "jinja/filter_tables.h"
#include "jinja/operators.h"
#include "jinja/repr.h"

namespace pagoda::jinja {
namespace {

Value escaped(Render& render, const Value& value) {
  const Value text = to_string(render, value);
  render.work(text.text().bytes.size());
  StringBuilder out;
  append_escaped(out, text.text());
  render.check_size(out.size());
  return out.take(render, true);
}

Value filter_escape(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  return value.is_string() && value.text().markup ? value : escaped(render, value);
}
Value filter_force_escape(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("forceescape", arguments, {});
  return escaped(render, value);
}

Value filter_safe(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  const Value text = to_string(render, value);
  StringBuilder out;
  out.append(text.text());
  return out.take(render, true);
}

Value filter_strip_tags(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("striptags", arguments, {});
  const Value text = to_string(render, value);
  render.work(text.text().bytes.size());
  return Value::string(strip_tags(text.text().bytes), text.holds_user_text());
}

std::string quote_url(std::string_view text, bool for_query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && for_query) {
      out += '+';
    } else {
      char buffer[4];
      std::snprintf(buffer, sizeof buffer, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += buffer;
    }
  }
  return out;
}

Value filter_url_encode(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("urlencode", arguments, {});
  const bool is_iterable = value.is_sequence() || value.is(Kind::dict) || value.is(Kind::view) ||
                           value.is(Kind::iterator) || value.is(Kind::range) || value.is_undefined();
  if (value.is_string() || !is_iterable) {
    const Value text = to_string(render, value);
    render.work(text.text().bytes.size() * 3);
    return Value::string(quote_url(text.text().bytes, false), text.holds_user_text());
  }
  std::vector<Value> pairs;
  if (value.is(Kind::dict)) {
    for (const auto& [key, item] : value.entries().entries) pairs.push_back(Value::tuple({key, item}));
  } else {
    pairs = to_vector(render, value);
  }
  std::string out;
  bool user = false;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<Value> pair = to_vector(render, pairs[i]);
    if (pair.size() != 2) value_error("urlencode needs pairs");
    if (i != 0) out += '&';
    const Value key = to_string(render, pair[0]), item = to_string(render, pair[1]);
    render.work((key.text().bytes.size() + item.text().bytes.size()) * 3);
    out += quote_url(key.text().bytes, true) + "=" + quote_url(item.text().bytes, true);
    render.check_size(out.size());
    user = user || key.holds_user_text() || item.holds_user_text();
  }
  return Value::string(std::move(out), user);
}

Value filter_xml_attributes(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("xmlattr", arguments, {"autospace"});
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is(Kind::dict)) type_error("xmlattr needs a mapping");
  StringBuilder out;
  bool first = true;
  for (const auto& [key, item] : value.entries().entries) {
    render.step();
    if (item.is_none() || item.is_undefined()) continue;
    const std::string& name = expect_string(key, "xmlattr").bytes;
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      value_error("Invalid character in attribute name: " + quote(name, false));
    }
    if (!first || bound.flag(0, true)) out.append(" ");
    first = false;
    append_escaped(out, key.text());
    out.append("=\"");
    const Value text = item.is_string() && item.text().markup ? item : escaped(render, item);
    out.append(text.text());
    out.append("\"");
    render.check_size(out.size());
  }
  return out.take(render);
}

// pprint.pformat sorts the keys of dicts. A value wider than a line is refused, since it would be laid out
// wrongly.
Value sorted_copy(Render& render, const Value& value) {
  render.step();
  if (value.is_sequence()) {
    std::vector<Value> items;
    for (const Value& item : value.items()) items.push_back(sorted_copy(render, item));
    return value.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  if (!value.is(Kind::dict)) return value;
  std::vector<Value> keys;
  for (const auto& [key, item] : value.entries().entries) keys.push_back(key);
  std::vector<Value> order = keys;
  sort_by_keys(render, order, std::move(keys), false);
  Dict dict;
  for (const Value& key : order)
    render.set(dict, key, sorted_copy(render, *render.find(value.entries(), key)));
  return Value::dict(std::move(dict));
}

Value filter_pretty(Render& render, const Value& value, const Arguments& arguments) {
  constexpr std::int64_t kWidth = 80;
  const Bound bound("pprint", arguments, {});
  StringBuilder out;
  append_repr(render, out, sorted_copy(render, value));
  const Value text = out.take(render);
  const bool breakable = value.is_string() || value.is_sequence() || value.is(Kind::dict);
  if (breakable && text.text().num_chars > kWidth) {
    fail(ErrorKind::limit, "pprint of a value wider than 80 characters is not supported");
  }
  return text;
}

Value filter_urlize(Render&, const Value&, const Arguments&) {
  fail(ErrorKind::limit, "the filter 'urlize' is not supported");
}

constexpr NamedFunction kMarkupFilters[] = {
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_force_escape},
    {"pprint", filter_pretty},
    {"safe", filter_safe},
    {"striptags", filter_strip_tags},
    {"urlencode", filter_url_encode},
    {"urlize", filter_urlize},
    {"xmlattr", filter_xml_attributes},
};

}  // namespace

std::span<const NamedFunction> markup_filters() { return kMarkupFilters; }

}  // namespace pagoda::jinja
