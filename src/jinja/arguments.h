#pragma once
// Arguments of a call; and Bound: the arguments bound to a function's parameters, as Python binds them.
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace pagoda::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

void nest(Object& object, const Arguments& held);  // nests every argument

class Bound {
 public:
  // `parameters` in order; a leading '/' marks a positional-only parameter. type_error: too many arguments,
  // an unknown or repeated keyword, or one of the first `num_required` missing.
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, std::size_t num_required = 0);

  bool has(std::size_t index) const { return values_[index] != nullptr; }
  bool has_value(std::size_t index) const {
    return has(index) && !values_[index]->is_none();
  }  // given and not None
  const Value& operator[](std::size_t index) const { return *values_[index]; }
  Value get(std::size_t index, Value fallback) const {
    return has(index) ? *values_[index] : std::move(fallback);
  }
  bool flag(std::size_t index, bool fallback) const {
    return has(index) ? truthy(*values_[index]) : fallback;
  }
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;  // type_error: not an int
  const String& string(std::size_t index) const;                         // type_error: not a str

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

std::int64_t expect_integer(const Value& value, std::string_view function);
const String& expect_string(const Value& value, std::string_view function);

}  // namespace pagoda::jinja
