#include "jinja/arguments.h"

#include <algorithm>

namespace pagoda::jinja {

void nest(Object& object, const Arguments& held) {
  for (const Value& value : held.positional) nest(object, value);
  for (const auto& [name, value] : held.keyword) nest(object, value);
}

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, std::size_t num_required)
    : function_(function), values_(parameters.size(), nullptr) {
  const std::string name(function);
  if (arguments.positional.size() > parameters.size()) type_error(name + "() got too many arguments");
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [keyword, value] : arguments.keyword) {
    const auto* found = std::find(parameters.begin(), parameters.end(), keyword);
    if (found == parameters.end())
      type_error(name + "() got an unexpected keyword argument '" + keyword + "'");
    const Value*& slot = values_[static_cast<std::size_t>(found - parameters.begin())];
    if (slot != nullptr) type_error(name + "() got multiple values for argument '" + keyword + "'");
    slot = &value;
  }
  for (std::size_t i = 0; i < num_required; ++i) {
    if (values_[i] == nullptr) {
      type_error(name + "() missing a required argument: '" + std::string(parameters.begin()[i]) + "'");
    }
  }
}

std::int64_t Bound::integer(std::size_t index, std::int64_t fallback) const {
  return has(index) ? expect_integer(*values_[index], function_) : fallback;
}
const String& Bound::string(std::size_t index) const { return expect_string(*values_[index], function_); }

std::int64_t expect_integer(const Value& value, std::string_view function) {
  if (!value.is_integral()) {
    type_error(std::string(function) + "() needs an integer, not '" + std::string(type_name(value)) + "'");
  }
  return value.as_integer();
}
const String& expect_string(const Value& value, std::string_view function) {
  if (!value.is_string()) {
    type_error(std::string(function) + "() needs a string, not '" + std::string(type_name(value)) + "'");
  }
  return value.text();
}

}  // namespace pagoda::jinja
