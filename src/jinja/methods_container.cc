// Methods of list, tuple, dict, range and numbers.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "jinja/methods.h"
#include "jinja/operators.h"

namespace pagoda::jinja {
namespace {

Value sequence_count(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"/value"}, 1);
  std::int64_t count = 0;
  for (const Value& item : to_vector(render, self)) count += equal(render, item, bound[0]) ? 1 : 0;
  return Value::integer(count);
}

Value sequence_index(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"/value", "/start", "/stop"}, 1);
  const std::vector<Value> items = to_vector(render, self);
  const auto length = static_cast<std::int64_t>(items.size());
  const auto at = [&](std::size_t index, std::int64_t fallback) {
    std::int64_t value = bound.integer(index, fallback);
    if (value < 0) value = std::max<std::int64_t>(value + length, 0);
    return std::min(value, length);
  };
  const std::int64_t stop = at(2, length);
  for (std::int64_t i = at(1, 0); i < stop; ++i) {
    if (equal(render, items[static_cast<std::size_t>(i)], bound[0])) return Value::integer(i);
  }
  value_error("the value is not in the list");
}

Value return_self(Render&, const Value& self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {});
  return self;
}

template <View::Part part>
Value dict_view(Render&, const Value& self, const Arguments& arguments) {
  const Bound bound("dict method", arguments, {});
  auto view = std::make_shared<View>();
  nest(*view, self);
  view->part = part;
  view->dict = self;
  return {Kind::view, std::move(view)};
}

Value dict_get(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"/key", "/default"}, 1);
  const Value* found = render.find(self.entries(), bound[0]);
  return found != nullptr ? *found : bound.get(1, Value());
}

Value dict_from_keys(Render& render, const Value&, const Arguments& arguments) {
  const Bound bound("fromkeys", arguments, {"/iterable", "/value"}, 1);
  Dict dict;
  for (const Value& key : to_vector(render, bound[0])) render.set(dict, key, bound.get(1, Value()));
  return Value::dict(std::move(dict));
}

Value real_is_integer(Render&, const Value& self, const Arguments& arguments) {
  const Bound bound("is_integer", arguments, {});
  return Value::boolean(self.as_real() == std::floor(self.as_real()) && std::isfinite(self.as_real()));
}

Value integer_bit_length(Render&, const Value& self, const Arguments& arguments) {
  const Bound bound("bit_length", arguments, {});
  auto magnitude = static_cast<std::uint64_t>(self.as_integer());
  if (self.as_integer() < 0) magnitude = 0 - magnitude;
  return Value::integer(magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude));
}

Value conjugate(Render&, const Value& self, const Arguments& arguments) {
  const Bound bound("conjugate", arguments, {});
  return self.is_integral() ? Value::integer(self.as_integer()) : self;
}

constexpr NamedFunction kListMethods[] = {
    {"copy", return_self}, {"count", sequence_count}, {"index", sequence_index}};
constexpr NamedFunction kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr NamedFunction kDictMethods[] = {{"copy", return_self},
                                          {"fromkeys", dict_from_keys},
                                          {"get", dict_get},
                                          {"items", dict_view<View::Part::items>},
                                          {"keys", dict_view<View::Part::keys>},
                                          {"values", dict_view<View::Part::values>}};
constexpr NamedFunction kIntegerMethods[] = {{"bit_length", integer_bit_length}, {"conjugate", conjugate}};
constexpr NamedFunction kRealMethods[] = {{"conjugate", conjugate}, {"is_integer", real_is_integer}};

constexpr std::string_view kListChanges[] = {"append", "clear", "pop",    "reverse",
                                             "insert", "sort",  "extend", "remove"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <std::size_t n>
const NamedFunction* look_up(const NamedFunction (&table)[n], std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [name](const NamedFunction& entry) { return entry.name == name; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

const NamedFunction* find_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::string:
      return find_string_method(name);
    case Kind::list:
      return look_up(kListMethods, name);
    case Kind::tuple:
    case Kind::range:
      return look_up(kTupleMethods, name);
    case Kind::dict:
      return look_up(kDictMethods, name);
    case Kind::integer:
    case Kind::boolean:
      return look_up(kIntegerMethods, name);
    case Kind::real:
      return look_up(kRealMethods, name);
    default:
      return nullptr;
  }
}

bool is_changing_method(const Value& object, std::string_view name) {
  if (object.is(Kind::list))
    return std::find(std::begin(kListChanges), std::end(kListChanges), name) != std::end(kListChanges);
  if (object.is(Kind::dict))
    return std::find(std::begin(kDictChanges), std::end(kDictChanges), name) != std::end(kDictChanges);
  return false;
}

}  // namespace pagoda::jinja
