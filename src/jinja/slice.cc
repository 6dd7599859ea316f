// object[start:stop:step] of strings, lists, tuples and ranges.
#include <algorithm>

#include "jinja/operators.h"
#include "jinja/string_builder.h"
#include "jinja/text_functions.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {

Value slice(Render& render, const Value& object, const Value& start_value, const Value& stop_value,
            const Value& step_value) {
  if (object.is_undefined()) fail_undefined(object);
  std::int64_t length = 0;
  if (object.is_string()) {
    length = object.text().num_chars;
  } else if (object.is_sequence()) {
    length = static_cast<std::int64_t>(object.items().size());
  } else if (object.is(Kind::range)) {
    length = object.as<Range>().length;
  } else {
    type_error("'" + std::string(type_name(object)) + "' object is not subscriptable by a slice");
  }
  const auto check = [](const Value& value) {
    if (!value.is_none() && !value.is_integral()) {
      type_error("slice indices must be integers or None or have an __index__ method");
    }
  };
  check(start_value);
  check(stop_value);
  check(step_value);
  constexpr std::int64_t kLongest = std::int64_t{1} << 40;  // beyond any length, and safe to negate and add
  const std::int64_t step =
      step_value.is_none() ? 1 : std::clamp<std::int64_t>(step_value.as_integer(), -kLongest, kLongest);
  if (step == 0) value_error("slice step cannot be zero");
  const auto bound = [&](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    std::int64_t index = value.as_integer();
    if (index < 0) index += length;
    return std::clamp<std::int64_t>(index, step < 0 ? -1 : 0, step < 0 ? length - 1 : length);
  };
  const std::int64_t start = bound(start_value, step < 0 ? length - 1 : 0);
  const std::int64_t stop = bound(stop_value, step < 0 ? -1 : length);
  std::int64_t count = 0;
  if (step > 0 && start < stop) count = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) count = (start - stop - 1) / -step + 1;

  if (object.is_string()) {
    const String& text = object.text();
    render.work(text.bytes.size());
    const auto at = [&](std::int64_t index) {
      return text.ascii() ? static_cast<std::size_t>(index) : byte_offset(text.bytes, index);
    };
    if (step == 1)
      return substring(render, text, count == 0 ? 0 : at(start), count == 0 ? 0 : at(start + count));
    std::vector<std::size_t> offsets;  // start of every character, so that each step is cheap
    for (std::size_t byte = 0; byte < text.bytes.size(); next_char(text.bytes, byte)) offsets.push_back(byte);
    offsets.push_back(text.bytes.size());
    StringBuilder out;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<std::size_t>(start + i * step);
      out.append(text, offsets[index], offsets[index + 1]);
    }
    return out.take(render, text.markup);
  }
  render.step(count);
  if (object.is(Kind::range)) {
    const auto& range = object.as<Range>();
    const auto at = [&](std::int64_t index) {  // `index` may be one beyond the range
      const std::int64_t inside = std::clamp<std::int64_t>(index, 0, std::max<std::int64_t>(length - 1, 0));
      std::int64_t beyond = 0, value = range.at(inside).as_integer();
      if (__builtin_mul_overflow(index - inside, range.step, &beyond) ||
          __builtin_add_overflow(value, beyond, &value)) {
        integer_overflow();
      }
      return value;
    };
    auto result = std::make_shared<Range>();
    result->start = at(start);
    if (__builtin_mul_overflow(range.step, step, &result->step)) integer_overflow();
    result->stop = at(stop);
    result->length = count;
    return {Kind::range, std::move(result)};
  }
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    items.push_back(object.items()[static_cast<std::size_t>(start + i * step)]);
  return object.is(Kind::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace pagoda::jinja
