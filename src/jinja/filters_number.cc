// Filters on numbers.
#include <algorithm>
#include <cmath>

#include "jinja/filter_tables.h"
#include "jinja/numbers.h"
#include "jinja/operators.h"
#include "jinja/repr.h"

namespace pagoda::jinja {
namespace {

Value filter_abs(Render&, const Value& value, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  if (value.is(Kind::real)) return Value::real(std::abs(value.as_real()));
  if (!value.is_integral()) type_error("bad operand type for abs(): '" + std::string(type_name(value)) + "'");
  return value.as_integer() < 0 ? apply(UnaryOp::negate, value) : Value::integer(value.as_integer());
}

Value truncated(double number) {
  if (std::isnan(number)) value_error("cannot convert float NaN to integer");
  if (std::isinf(number)) fail(ErrorKind::overflow, "cannot convert float infinity to integer");
  if (!(std::abs(number) < 9.2e18)) integer_overflow();
  return Value::integer(static_cast<std::int64_t>(number));
}

Value filter_int(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  const Value fallback = bound.get(0, Value::integer(0));
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_integral()) return Value::integer(value.as_integer());
  if (value.is(Kind::big_integer)) return value;
  if (value.is(Kind::real)) return std::isnan(value.as_real()) ? fallback : truncated(value.as_real());
  if (!value.is_string()) return fallback;
  const std::string& text = value.text().bytes;
  render.work(text.size());
  const std::int64_t base = bound.integer(1, 10);
  if (base == 0 || (base >= 2 && base <= 36)) {
    if (const auto number = parse_integer(text, static_cast<int>(base))) return Value::integer(*number);
    if (base == 10 && is_python_integer(text)) integer_overflow();
  }
  const auto number = parse_real(text);
  return number && std::isfinite(*number) ? truncated(*number) : fallback;
}

Value filter_float(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_number()) return Value::real(value.as_real());
  if (value.is_string()) {
    render.work(value.text().bytes.size());
    if (const auto number = parse_real(value.text().bytes)) return Value::real(*number);
  }
  return bound.get(0, Value::real(0.0));
}

Value filter_round(Render&, const Value& value, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const std::int64_t precision = bound.integer(0, 0);
  const std::string method = bound.has(1) ? bound.string(1).bytes : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    value_error("method must be common, ceil or floor");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number())
    type_error("type " + std::string(type_name(value)) + " doesn't define __round__ method");
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = value.as_real() * scale;
    if (!std::isfinite(scaled)) fail(ErrorKind::overflow, "cannot convert float infinity to integer");
    // An integer in Python, hence never a negative zero.
    return Value::real(((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / scale);
  }
  if (value.is(Kind::real)) return Value::real(round_real(value.as_real(), precision));
  if (precision >= 0) return Value::integer(value.as_integer());
  if (precision < -18) return Value::integer(0);
  std::int64_t unit = 1;
  for (std::int64_t i = precision; i < 0; ++i) unit *= 10;
  const std::int64_t number = value.as_integer();
  std::int64_t quotient = number / unit;
  const std::int64_t remainder = std::abs(number % unit);
  if (remainder * 2 > unit || (remainder * 2 == unit && quotient % 2 != 0)) quotient += number < 0 ? -1 : 1;
  std::int64_t result = 0;
  if (__builtin_mul_overflow(quotient, unit, &result)) integer_overflow();
  return Value::integer(result);
}

Value filter_file_size(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("filesizeformat", arguments, {"binary"});
  if (value.is_undefined()) fail_undefined(value);
  double bytes = 0;
  if (value.is_string()) render.work(value.text().bytes.size());
  if (value.is_number()) {
    bytes = value.as_real();
  } else if (value.is_string() && parse_real(value.text().bytes)) {
    bytes = *parse_real(value.text().bytes);
  } else {
    value_error("could not convert to float");
  }
  const bool binary = bound.flag(0, false);
  const double base = binary ? 1024 : 1000;
  static constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  if (bytes == 1) return Value::string("1 Byte");
  if (bytes < base) return Value::string(std::to_string(static_cast<std::int64_t>(bytes)) + " Bytes");
  double unit = base;
  int index = -1;
  do {
    unit *= base;
    ++index;
  } while (bytes >= unit && index < 7);
  const std::string number = format_real(base * bytes / unit, 'f', 1, false);
  return Value::string(number + " " + (binary ? kBinary : kDecimal)[index]);
}

constexpr NamedFunction kNumberFilters[] = {
    {"abs", filter_abs},     {"filesizeformat", filter_file_size},
    {"float", filter_float}, {"int", filter_int},
    {"round", filter_round},
};

}  // namespace

std::span<const NamedFunction> number_filters() { return kNumberFilters; }

}  // namespace pagoda::jinja
