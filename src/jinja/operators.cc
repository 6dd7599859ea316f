#include "jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "jinja/escape.h"
#include "jinja/printf_format.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(BinaryOp op, const Value& left, const Value& right) {
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  type_error("unsupported operand type(s) for " + std::string(kSymbols[static_cast<int>(op)]) + ": '" +
             std::string(type_name(left)) + "' and '" + std::string(type_name(right)) + "'");
}

[[noreturn]] void divided_by_zero() { fail(ErrorKind::zero_division, "division by zero"); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) divided_by_zero();
  if (b == -1) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) integer_overflow();
    return result;
  }
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) divided_by_zero();
  if (b == -1) return 0;
  const std::int64_t remainder = a % b;
  return remainder != 0 && ((remainder < 0) != (b < 0)) ? remainder + b : remainder;
}

double modulo(double a, double b) {
  if (b == 0) divided_by_zero();
  double remainder = std::fmod(a, b);
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) remainder += b;
  } else {
    remainder = std::copysign(0.0, b);
  }
  return remainder;
}

double floor_divide(double a, double b) {
  if (b == 0) divided_by_zero();
  const double remainder = modulo(a, b);
  const double quotient = (a - remainder) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value power(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral() && right.as_integer() >= 0) {
    std::int64_t base = left.as_integer(), result = 1;
    for (std::int64_t exponent = right.as_integer(); exponent > 0; exponent >>= 1) {
      if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) integer_overflow();
      if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) integer_overflow();
    }
    return Value::integer(result);
  }
  const double base = left.as_real(), exponent = right.as_real();
  if (base == 0 && exponent < 0) fail(ErrorKind::zero_division, "0.0 cannot be raised to a negative power");
  if (base < 0 && exponent != std::floor(exponent)) type_error("complex numbers are not supported");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && !std::isinf(base) && !std::isinf(exponent)) {
    fail(ErrorKind::overflow, "a float is out of range");
  }
  return Value::real(result);
}

Value arithmetic(BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::power) return power(left, right);
  if (left.is_integral() && right.is_integral() && op != BinaryOp::divide) {
    const std::int64_t a = left.as_integer(), b = right.as_integer();
    std::int64_t result = 0;
    bool overflow = false;
    switch (op) {
      case BinaryOp::add:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
      case BinaryOp::subtract:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
      case BinaryOp::multiply:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
      case BinaryOp::floor_divide:
        result = floor_divide(a, b);
        break;
      default:
        result = modulo(a, b);
    }
    if (overflow) integer_overflow();
    return Value::integer(result);
  }
  const double a = left.as_real(), b = right.as_real();
  switch (op) {
    case BinaryOp::add:
      return Value::real(a + b);
    case BinaryOp::subtract:
      return Value::real(a - b);
    case BinaryOp::multiply:
      return Value::real(a * b);
    case BinaryOp::divide:
      if (b == 0) divided_by_zero();
      return Value::real(a / b);
    case BinaryOp::floor_divide:
      return Value::real(floor_divide(a, b));
    default:
      return Value::real(modulo(a, b));
  }
}

Value concatenate_strings(Render& render, const Value& left, const Value& right) {
  render.check_size(left.text().bytes.size() + right.text().bytes.size());
  const bool markup = left.text().markup || right.text().markup;
  StringBuilder out;
  for (const Value* side : {&left, &right}) {
    if (markup && !side->text().markup) {
      append_escaped(out, side->text());
    } else {
      out.append(side->text());
    }
  }
  return out.take(render, markup);
}

Value concatenate_sequences(Render& render, const Value& left, const Value& right) {
  std::vector<Value> items = left.items();
  render.check_count(items.size() + right.items().size());
  render.step(static_cast<std::int64_t>(items.size() + right.items().size()));
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value repeat(Render& render, const Value& value, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, std::int64_t{1} << 31));
  if (value.is_string()) {
    const String& text = value.text();
    if (!text.bytes.empty()) render.check_size(text.bytes.size() * times);
    StringBuilder out;
    if (!text.bytes.empty()) {
      for (std::size_t i = 0; i < times; ++i) out.append(text);
    }
    return out.take(render, text.markup);
  }
  const std::vector<Value>& source = value.items();
  std::vector<Value> items;
  if (!source.empty()) {
    render.check_count(source.size() * times);
    render.step(static_cast<std::int64_t>(source.size() * times));
    for (std::size_t i = 0; i < times; ++i) items.insert(items.end(), source.begin(), source.end());
  }
  return value.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool repeatable(const Value& value) { return value.is_string() || value.is_sequence(); }

// Exact comparison of an integer with a float: -1, 0, 1; 2 if the float is NaN.
int order(std::int64_t a, double b) {
  if (std::isnan(b)) return 2;
  if (b >= 9223372036854775808.0) return -1;
  if (b < -9223372036854775808.0) return 1;
  const double whole = std::floor(b);
  const auto integer = static_cast<std::int64_t>(whole);
  if (a != integer) return a < integer ? -1 : 1;
  return b > whole ? -1 : 0;
}

int order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer() ? 1 : 0;
  }
  if (a.is_integral()) return order(a.as_integer(), b.as_real());
  if (b.is_integral()) {
    const int reversed = order(b.as_integer(), a.as_real());
    return reversed == 2 ? 2 : -reversed;
  }
  const double x = a.as_real(), y = b.as_real();
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool equal_items(Render& render, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(render, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Render& render, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = render.find(b, key);
    if (other == nullptr || !equal(render, value, *other)) return false;
  }
  return true;
}

bool in_range(const Range& range, const Value& item) {
  std::int64_t number = 0;
  if (item.is_integral()) {
    number = item.as_integer();
  } else if (item.is(Kind::real)) {
    const double value = item.as_real();
    if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return false;
    number = static_cast<std::int64_t>(value);
    if (static_cast<double>(number) != value) return false;
  } else {
    return false;
  }
  // Unsigned arithmetic: the distance between two int64 values fits, and so does a step of -2^63.
  const bool up = range.step > 0;
  const auto at = static_cast<std::uint64_t>(number), start = static_cast<std::uint64_t>(range.start);
  const auto step = static_cast<std::uint64_t>(range.step);
  if (up ? number < range.start : number > range.start) return false;
  const std::uint64_t distance = up ? at - start : start - at;
  const std::uint64_t stride = up ? step : 0 - step;
  return distance % stride == 0 && distance / stride < static_cast<std::uint64_t>(range.length);
}

[[noreturn]] void not_ordered(std::string_view op, const Value& left, const Value& right) {
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  type_error("'" + std::string(op) + "' not supported between instances of '" + std::string(type_name(left)) +
             "' and '" + std::string(type_name(right)) + "'");
}

// left < right, or left <= right.
bool ordered(Render& render, const Value& left, const Value& right, bool or_equal, std::string_view op) {
  render.step();
  if (left.is_number() && right.is_number()) {
    const int result = order_numbers(left, right);
    return result == -1 || (or_equal && result == 0);
  }
  if (left.is_string() && right.is_string()) {
    render.work(std::min(left.text().bytes.size(), right.text().bytes.size()));
    const int result = left.text().bytes.compare(right.text().bytes);
    return or_equal ? result <= 0 : result < 0;
  }
  if (left.is_sequence() && right.kind() == left.kind()) {
    const auto& a = left.items();
    const auto& b = right.items();
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equal(render, a[i], b[i])) return ordered(render, a[i], b[i], or_equal, op);
    }
    return or_equal ? a.size() <= b.size() : a.size() < b.size();
  }
  not_ordered(op, left, right);
}

}  // namespace

void integer_overflow() { fail(ErrorKind::overflow, "an integer is beyond 64 bits"); }

Value apply(UnaryOp op, const Value& operand) {
  if (op == UnaryOp::logical_not) return Value::boolean(!truthy(operand));
  if (operand.is_undefined()) fail_undefined(operand);
  const bool negate = op == UnaryOp::negate;
  if (operand.is_integral()) {
    std::int64_t result = operand.as_integer();
    if (negate && __builtin_sub_overflow(std::int64_t{0}, result, &result)) integer_overflow();
    return Value::integer(result);
  }
  if (operand.is(Kind::real)) return Value::real(negate ? -operand.as_real() : operand.as_real());
  type_error(std::string("bad operand type for unary ") + (negate ? "-" : "+") + ": '" +
             std::string(type_name(operand)) + "'");
}

Value apply(Render& render, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return arithmetic(op, left, right);
  if (op == BinaryOp::modulo && left.is_string()) {
    return format_printf(render, left.text(), right);
  }
  if (op == BinaryOp::add) {
    if (left.is_string() && right.is_string()) return concatenate_strings(render, left, right);
    if (left.is_sequence() && left.kind() == right.kind()) return concatenate_sequences(render, left, right);
  }
  if (op == BinaryOp::multiply) {
    if (repeatable(left) && right.is_integral()) return repeat(render, left, right.as_integer());
    if (repeatable(right) && left.is_integral()) return repeat(render, right, left.as_integer());
  }
  unsupported(op, left, right);
}

bool equal(Render& render, const Value& left, const Value& right) {
  render.step();
  if (left.is_number() && right.is_number()) return order_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      render.work(std::min(left.text().bytes.size(), right.text().bytes.size()));
      return left.text().bytes == right.text().bytes;
    case Kind::big_integer:
      return left.as<BigInteger>().digits == right.as<BigInteger>().digits;
    case Kind::list:
    case Kind::tuple:
      return left.object() == right.object() || equal_items(render, left.items(), right.items());
    case Kind::dict:
      return left.object() == right.object() || equal_dicts(render, left.entries(), right.entries());
    case Kind::range: {
      const auto& a = left.as<Range>();
      const auto& b = right.as<Range>();
      return a.length == b.length &&
             (a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step)));
    }
    case Kind::method:
      return left.as<Method>().call == right.as<Method>().call &&
             left.as<Method>().self.object() == right.as<Method>().self.object();
    case Kind::view: {
      const auto& a = left.as<View>();
      const auto& b = right.as<View>();
      if (a.part == View::Part::values || a.part != b.part) return left.object() == right.object();
      if (a.part == View::Part::items) return equal_dicts(render, a.dict.entries(), b.dict.entries());
      if (a.dict.entries().entries.size() != b.dict.entries().entries.size()) return false;
      for (const auto& [key, value] : a.dict.entries().entries) {
        if (render.find(b.dict.entries(), key) == nullptr) return false;
      }
      return true;
    }
    default:
      return left.object() == right.object();
  }
}

bool less(Render& render, const Value& left, const Value& right) {
  return ordered(render, left, right, false, "<");
}

bool contains(Render& render, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is_string()) {
        type_error("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
      }
      render.work(container.text().bytes.size());
      return memmem(container.text().bytes.data(), container.text().bytes.size(), item.text().bytes.data(),
                    item.text().bytes.size()) != nullptr;
    case Kind::dict:
      return render.find(container.entries(), item) != nullptr;
    case Kind::range:
      return in_range(container.as<Range>(), item);
    case Kind::view: {
      const auto& view = container.as<View>();
      if (view.part == View::Part::keys) return render.find(view.dict.entries(), item) != nullptr;
      break;
    }
    default:
      break;
  }
  if (container.is_number() || container.is_none() || container.is(Kind::function) ||
      container.is(Kind::method) || container.is(Kind::macro) || container.is(Kind::name_space) ||
      container.is(Kind::cycler)) {
    type_error("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
  const std::shared_ptr<Iterator> items = iterate(render, container);
  for (Value candidate; items->next(render, candidate);) {
    if (equal(render, candidate, item)) return true;
  }
  return false;
}

bool compare(Render& render, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::equal:
      return equal(render, left, right);
    case CompareOp::not_equal:
      return !equal(render, left, right);
    case CompareOp::less:
      return ordered(render, left, right, false, "<");
    case CompareOp::less_equal:
      return ordered(render, left, right, true, "<=");
    case CompareOp::greater:
      return ordered(render, right, left, false, ">");
    case CompareOp::greater_equal:
      return ordered(render, right, left, true, ">=");
    case CompareOp::in:
      return contains(render, right, left);
    case CompareOp::not_in:
      return !contains(render, right, left);
  }
  return false;
}

// A hand-written merge sort: a template's values need not have a strict weak order, which std::sort requires.
void sort_by_keys(Render& render, std::vector<Value>& items, std::vector<Value> keys, bool reverse) {
  std::vector<std::size_t> order(items.size()), buffer(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto goes_first = [&](std::size_t b, std::size_t a) {  // b, on the right, before a?
    return reverse ? less(render, keys[a], keys[b]) : less(render, keys[b], keys[a]);
  };
  for (std::size_t width = 1; width < order.size(); width *= 2) {
    for (std::size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, order.size());
      const std::size_t end = std::min(begin + 2 * width, order.size());
      std::size_t left = begin, right = middle;
      for (std::size_t out = begin; out < end; ++out) {
        const bool take_right = left == middle || (right < end && goes_first(order[right], order[left]));
        buffer[out] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(buffer);
  }
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t index : order) sorted.push_back(items[index]);
  items = std::move(sorted);
}

}  // namespace pagoda::jinja
