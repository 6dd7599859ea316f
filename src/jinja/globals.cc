#include "jinja/globals.h"

#include <time.h>

#include <chrono>

namespace pagoda::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as in jinja2's sandbox

Value make_range(Render&, const Value&, const Arguments& arguments) {
  if (!arguments.keyword.empty()) type_error("range() takes no keyword arguments");
  const std::size_t count = arguments.positional.size();
  if (count == 0 || count > 3) type_error("range expected 1 to 3 arguments");
  const auto at = [&](std::size_t index) {
    const Value& value = arguments.positional[index];
    if (value.is_undefined()) fail_undefined(value);
    return expect_integer(value, "range");
  };
  auto range = std::make_shared<Range>();
  range->start = count == 1 ? 0 : at(0);
  range->stop = at(count == 1 ? 0 : 1);
  range->step = count == 3 ? at(2) : 1;
  if (range->step == 0) value_error("range() arg 3 must not be zero");
  // Unsigned arithmetic: the distance between two int64 values fits.
  const bool up = range->step > 0;
  if (up ? range->start < range->stop : range->start > range->stop) {
    const auto low = static_cast<std::uint64_t>(up ? range->start : range->stop);
    const auto high = static_cast<std::uint64_t>(up ? range->stop : range->start);
    const auto step =
        up ? static_cast<std::uint64_t>(range->step) : 0 - static_cast<std::uint64_t>(range->step);
    const std::uint64_t length = (high - low - 1) / step + 1;
    if (length > kMaxRange) {
      fail(ErrorKind::overflow, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    range->length = static_cast<std::int64_t>(length);
  }
  return {Kind::range, std::move(range)};
}

// dict(mapping or pairs, **keywords); namespace() accepts the same arguments.
Dict make_entries(Render& render, const Arguments& arguments) {
  if (arguments.positional.size() > 1) type_error("dict expected at most 1 argument");
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::dict)) {
      for (const auto& [key, value] : source.entries().entries) render.set(dict, key, value);
      render.step(static_cast<std::int64_t>(dict.entries.size()));
    } else {
      for (const Value& pair : to_vector(render, source)) {
        const std::vector<Value> items = to_vector(render, pair);
        if (items.size() != 2)
          value_error("dictionary update sequence element has the wrong length; 2 is required");
        render.set(dict, items[0], items[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.keyword) render.set(dict, Value::string(key), value);
  return dict;
}

Value make_dict(Render& render, const Value&, const Arguments& arguments) {
  return Value::dict(make_entries(render, arguments));
}

Value make_namespace(Render& render, const Value&, const Arguments& arguments) {
  auto result = render.make_mutable<Namespace>();
  result->attributes = make_entries(render, arguments);
  for (const auto& [key, value] : result->attributes.entries) {
    if (key.is_string() && key.text().bytes.starts_with('_')) {
      fail(ErrorKind::security,
           "a namespace has no underscore-prefixed attributes: '" + key.text().bytes + "'");
    }
  }
  return {Kind::name_space, std::move(result)};
}

Value make_cycler(Render& render, const Value&, const Arguments& arguments) {
  if (!arguments.keyword.empty()) type_error("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) fail(ErrorKind::runtime, "at least one item has to be provided");
  auto result = render.make_mutable<Cycler>();
  result->items = arguments.positional;
  return {Kind::cycler, std::move(result)};
}

Value make_joiner(Render& render, const Value&, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  auto result = render.make_mutable<Joiner>();
  result->separator = bound.get(0, Value::string(", "));
  return {Kind::joiner, std::move(result)};
}

Value raise_exception(Render&, const Value&, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  fail(ErrorKind::raised, bound[0].is_string() ? bound[0].text().bytes : std::string(type_name(bound[0])));
}

Value lipsum(Render&, const Value&, const Arguments&) { fail(ErrorKind::limit, "lipsum() is not supported"); }

// datetime.now().strftime(format): the C library's strftime in the C locale, except that %f, %z and %Z behave
// as for a naive datetime.
Value strftime_now(Render& render, const Value&, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = bound.string(0).bytes;
  constexpr std::size_t kGrowth = 16;  // bytes of text per byte of a value
  render.work(format.size() * kGrowth);
  std::tm time{};
  if (render.options().now_unix_seconds) {
    const std::time_t seconds = static_cast<std::time_t>(*render.options().now_unix_seconds);
    if (gmtime_r(&seconds, &time) == nullptr) value_error("the date is out of range");
  } else {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    localtime_r(&seconds, &time);
  }
  std::string expanded;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char next = i + 1 < format.size() ? format[i + 1] : '\0';
    if (format[i] != '%' || next == '\0') {
      expanded += format[i];
      continue;
    }
    ++i;
    if (next == 'f') {
      expanded += "000000";
    } else if (next != 'z' && next != 'Z') {
      expanded += '%';
      expanded += next;
    }
  }
  if (expanded.empty()) return Value::string("");
  static const locale_t kCLocale = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string out(expanded.size() * kGrowth + 256, '\0');
  render.check_size(out.size());
  out.resize(strftime_l(out.data(), out.size(), expanded.c_str(), &time, kCLocale));
  return Value::string(std::move(out), bound[0].holds_user_text());
}

Value function(const char* name, NativeFunction call) {
  auto result = std::make_shared<Function>();
  result->name = name;
  result->call = call;
  return {Kind::function, std::move(result)};
}

}  // namespace

void add_globals(std::map<std::string, Value, std::less<>>& variables) {
  static constexpr std::pair<const char*, NativeFunction> kGlobals[] = {
      {"range", make_range},
      {"dict", make_dict},
      {"namespace", make_namespace},
      {"cycler", make_cycler},
      {"joiner", make_joiner},
      {"raise_exception", raise_exception},
      {"lipsum", lipsum},
      {"strftime_now", strftime_now},
  };
  for (const auto& [name, call] : kGlobals) variables[name] = function(name, call);
}

}  // namespace pagoda::jinja
