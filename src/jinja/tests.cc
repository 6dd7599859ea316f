#include "jinja/tests.h"

#include <algorithm>
#include <iterator>

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

using Test = Value(Render&, const Value&, const Arguments&);

void no_arguments(const Arguments& arguments) { const Bound bound("test", arguments, {}); }

template <bool (*predicate)(const Value&)>
Value plain(Render&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return Value::boolean(predicate(value));
}

template <CompareOp op>
Value comparison(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {"/other"}, 1);
  return Value::boolean(compare(render, op, value, bound[0]));
}

Value remainder(Render& render, const Value& value, std::int64_t divisor) {
  return apply(render, BinaryOp::modulo, value, Value::integer(divisor));
}
Value test_odd(Render& render, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return Value::boolean(equal(render, remainder(render, value, 2), Value::integer(1)));
}
Value test_even(Render& render, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  return Value::boolean(equal(render, remainder(render, value, 2), Value::integer(0)));
}
Value test_divisible_by(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return Value::boolean(equal(render, apply(render, BinaryOp::modulo, value, bound[0]), Value::integer(0)));
}

template <bool (*is_case)(std::string_view)>
Value test_case(Render& render, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  const Value text = to_string(render, value);
  const std::string& bytes = text.text().bytes;
  render.work(bytes.size());
  return Value::boolean(is_case(bytes));
}

Value test_same_as(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  const Value& other = bound[0];
  if (value.kind() != other.kind()) return Value::boolean(false);
  if (value.object() || other.object()) {
    // CPython interns the short strings of a template, so equal strings are treated as identical.
    return Value::boolean(value.object() == other.object() ||
                          (value.is_string() && equal(render, value, other)));
  }
  return Value::boolean(equal(render, value, other));
}

Value test_in(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("in", arguments, {"seq"}, 1);
  return Value::boolean(contains(render, bound[0], value));
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
    case Kind::iterator:
    case Kind::undefined:
    case Kind::loop:
      return true;
    default:
      return false;
  }
}
bool is_sequence(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is(Kind::dict) || value.is(Kind::range) ||
         value.is_undefined();
}
bool is_callable(const Value& value) {
  switch (value.kind()) {
    case Kind::function:
    case Kind::method:
    case Kind::macro:
    case Kind::loop:
    case Kind::joiner:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}
bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is(Kind::boolean); }
bool is_true(const Value& value) { return value.is(Kind::boolean) && value.as_bool(); }
bool is_false(const Value& value) { return value.is(Kind::boolean) && !value.as_bool(); }
bool is_integer(const Value& value) { return value.is(Kind::integer) || value.is(Kind::big_integer); }
bool is_float(const Value& value) { return value.is(Kind::real); }
bool is_number(const Value& value) { return value.is_number() || value.is(Kind::big_integer); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is(Kind::dict); }
bool is_escaped(const Value& value) { return value.is_string() && value.text().markup; }
// `value in environment.filters`: an error if the value cannot be a key.
template <bool (*is_name)(std::string_view)>
Value test_name(Render& render, const Value& value, const Arguments& arguments) {
  no_arguments(arguments);
  render.charge(key_bytes(value));
  hash(value);
  return Value::boolean(value.is_string() && is_name(value.text().bytes));
}

constexpr NamedFunction kTests[] = {
    {"!=", comparison<CompareOp::not_equal>},
    {"<", comparison<CompareOp::less>},
    {"<=", comparison<CompareOp::less_equal>},
    {"==", comparison<CompareOp::equal>},
    {">", comparison<CompareOp::greater>},
    {">=", comparison<CompareOp::greater_equal>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", test_divisible_by},
    {"eq", comparison<CompareOp::equal>},
    {"equalto", comparison<CompareOp::equal>},
    {"escaped", plain<is_escaped>},
    {"even", test_even},
    {"false", plain<is_false>},
    {"filter", test_name<is_filter>},
    {"float", plain<is_float>},
    {"ge", comparison<CompareOp::greater_equal>},
    {"greaterthan", comparison<CompareOp::greater>},
    {"gt", comparison<CompareOp::greater>},
    {"in", test_in},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable>},
    {"le", comparison<CompareOp::less_equal>},
    {"lessthan", comparison<CompareOp::less>},
    {"lower", test_case<is_all_lower>},
    {"lt", comparison<CompareOp::less>},
    {"mapping", plain<is_mapping>},
    {"ne", comparison<CompareOp::not_equal>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", test_odd},
    {"sameas", test_same_as},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", test_name<is_test>},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", test_case<is_all_upper>},
};

}  // namespace

NativeFunction find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [name](const NamedFunction& entry) { return entry.name == name; });
  return found == std::end(kTests) ? nullptr : found->function;
}
bool is_test(std::string_view name) { return find_test(name) != nullptr; }

}  // namespace pagoda::jinja
