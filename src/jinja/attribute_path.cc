#include "jinja/attribute_path.h"

#include <algorithm>

#include "jinja/numbers.h"
#include "jinja/text_functions.h"

namespace pagoda::jinja {

AttributePath::AttributePath(Render& render, const Value& attribute) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  const std::string& path = attribute.text().bytes;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    render.work(part.size());
    const bool digits =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto index = digits ? parse_integer(part, 10) : std::nullopt;
    parts_.push_back(index ? Value::integer(*index) : Value::string(part));
    if (end == path.size()) return;
    begin = end + 1;
  }
}

Value AttributePath::get(Render& render, const Value& item, const Value* fallback) const {
  Value value = item;
  for (const Value& part : parts_) {
    render.step();
    value = render.item(value, part);
    if (fallback != nullptr && value.is_undefined()) value = *fallback;
  }
  return value;
}

Value ignore_case(Render& render, const Value& value) {
  return value.is_string() ? to_lower(render, value.text()) : value;
}

}  // namespace pagoda::jinja
