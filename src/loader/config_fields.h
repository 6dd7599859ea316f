#pragma once
// Fields: typed access to one JSON object, for those who read configs. Of loader/ alone.
#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {

namespace json = boost::json;

// A value for a message; json::serialize would write 0.5 as 5E-1.
inline std::string show(const json::value& value) {
  return value.is_double() ? concat(value.get_double()) : printable(json::serialize(value), 60);
}

// Typed access to one JSON object. The first wrong type is kept as status(); reads after it give
// defaults, so that a caller checks once at the end. Null counts as absent unless `has` is asked.
class Fields {
 public:
  // `file` is named in errors.
  Fields(const json::object& object, Status& status, std::string_view file = "config.json")
      : object_(object), status_(status), file_(file) {}

  const json::value* find(std::string_view name) const {
    asked_.insert(std::string(name));
    const json::value* value = object_.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  bool asked(std::string_view name) const { return asked_.contains(name); }
  const json::object& object() const { return object_; }
  bool written(std::string_view name) const { return object_.contains(name); }  // even if null

  std::int32_t integer(std::string_view name, std::int32_t otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    const std::optional<std::int32_t> number = to_int32(*value);
    if (!number) fail(name, "an integer");
    return number.value_or(otherwise);
  }
  float number(std::string_view name, float otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    if (value->is_number()) return static_cast<float>(value->to_number<double>());
    fail(name, "a number");
    return otherwise;
  }
  bool boolean(std::string_view name, bool otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    if (value->is_bool()) return value->get_bool();
    fail(name, "true or false");
    return otherwise;
  }
  std::string string(std::string_view name, std::string_view otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return std::string(otherwise);
    if (value->is_string()) return std::string(value->get_string());
    fail(name, "a string");
    return std::string(otherwise);
  }
  const json::object* object(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return nullptr;
    if (!value->is_object()) fail(name, "an object");
    return value->if_object();
  }
  // An integer or a list of integers.
  std::vector<std::int32_t> integers(std::string_view name) {
    std::vector<std::int32_t> out;
    const json::value* value = find(name);
    if (value == nullptr) return out;
    const auto take = [&](const json::value& element) {
      if (const std::optional<std::int32_t> number = to_int32(element)) {
        if (std::find(out.begin(), out.end(), *number) == out.end()) out.push_back(*number);
      } else {
        fail(name, "an integer or a list of integers");
      }
    };
    if (!value->is_array()) {
      take(*value);
    } else if (value->get_array().size() > 4096) {
      fail(name, "a list of at most 4096 integers");
    } else {
      for (const json::value& element : value->get_array()) take(element);
    }
    return out;
  }
  // A list of numbers; empty and failed where it is not one.
  std::vector<float> numbers(std::string_view name) {
    std::vector<float> out;
    const json::value* value = find(name);
    const json::array* list = value != nullptr ? value->if_array() : nullptr;
    if (list != nullptr && list->size() <= 4096) {
      for (const json::value& each : *list)
        if (each.is_number()) out.push_back(static_cast<float>(each.to_number<double>()));
    }
    if (list == nullptr || out.size() != list->size() || out.empty()) fail(name, "a list of numbers");
    return out;
  }
  // A list of `count` flags, each 0 or 1.
  std::vector<bool> flags(std::string_view name, std::int32_t count) {
    std::vector<bool> out;
    const json::value* value = find(name);
    const json::array* list = value != nullptr ? value->if_array() : nullptr;
    if (list != nullptr && list->size() == static_cast<std::size_t>(count)) {
      for (const json::value& each : *list) {
        if (each != 0 && each != 1) break;
        out.push_back(each == 1);
      }
    }
    if (out.size() != static_cast<std::size_t>(count)) fail(name, "a 0 or 1 for each layer");
    return out;
  }
  // Refuses the option `name` unless it is absent, null or `harmless`.
  void only(std::string_view name, const json::value& harmless) {
    const json::value* value = find(name);
    if (value == nullptr || *value == harmless || !status_.ok()) return;
    status_ = unimplemented(concat("config.json: '", name, "' = ", show(*value),
                                   " is not supported; supported: ", show(harmless)));
  }

  void fail(std::string_view name, std::string_view expected) {
    if (status_.ok()) status_ = corrupt_data(concat(file_, ": '", name, "' must be ", expected));
  }
  void corrupt(std::string message) {
    if (status_.ok()) status_ = corrupt_data(std::move(message));
  }
  void refuse(std::string message) {
    if (status_.ok()) status_ = unimplemented(std::move(message));
  }
  const Status& status() const { return status_; }
  Status& shared_status() { return status_; }

 private:
  static std::optional<std::int32_t> to_int32(const json::value& value) {
    boost::system::error_code error;
    const auto number = value.is_number() ? value.to_number<std::int32_t>(error) : 0;
    if (!value.is_number() || error) return std::nullopt;
    return number;
  }

  const json::object& object_;
  mutable std::set<std::string, std::less<>> asked_;
  Status& status_;
  std::string_view file_;
};

// Quotient or 0, which finish_config refuses.
inline std::int32_t divide(std::int32_t a, std::int32_t b) { return b > 0 ? a / b : 0; }

}  // namespace pagoda
