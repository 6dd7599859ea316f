#pragma once
// Fields: the view of a quantization_config that its readers share (quantization.cc, quantization_mlx.cc).
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/status.h"
#include "base/strings.h"
#include "loader/hyperparameters.h"
#include "loader/quantization.h"

namespace pagoda {

namespace json = boost::json;

inline constexpr std::int64_t kMaxGroup = 1 << 20;

// The fields of a quantization_config, or of an object inside.
class Fields : public Hyperparameters {
 public:
  Fields(const json::object& object, Status& status)
      : Hyperparameters(object, status, "'quantization_config.") {}

  // The first of these that is given, or else the first.
  std::string_view given(std::initializer_list<std::string_view> names) const {
    const auto is_given = [&](std::string_view name) { return find(name) != nullptr; };
    const auto* const name = std::ranges::find_if(names, is_given);
    return name != names.end() ? *name : *names.begin();
  }
  std::int64_t size(std::string_view name, std::int64_t otherwise) const {  // -1: of a whole row
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    if (value->is_int64() && value->get_int64() >= -1 && value->get_int64() <= kMaxGroup)
      return value->get_int64();
    fail(name, "a size");
    return otherwise;
  }
  float positive(std::string_view name) const {  // 0 where it is not given
    if (find(name) == nullptr) return 0;
    const auto number = find(name)->is_number() ? static_cast<float>(find(name)->to_number<double>()) : 0.0f;
    if (number > 0 && std::isfinite(number)) return number;
    fail(name, "a positive number");
    return 0;
  }
  std::string word(std::string_view name, std::string_view otherwise) const {
    return lowered(string(name, otherwise));
  }
};

// The error for a method that is supported, in a form that is not.
inline Status refuse(QuantizationMethod method, std::string_view what) {
  return unsupported_quantization(concat(quantization_name(method), " ", what));
}

// MLX's `quantization`.
Status read_mlx(const Fields& fields, Quantization& out);

}  // namespace pagoda
