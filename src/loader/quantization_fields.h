#pragma once
// Fields: a view of a quantization_config, shared by its readers (quantization.cc, quantization_mlx.cc).
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

// The fields of a quantization_config, or of a nested object.
class Fields : public Hyperparameters {
 public:
  Fields(const json::object& object, Status& status)
      : Hyperparameters(object, status, "'quantization_config.") {}

  // Returns the first of these names that is given, otherwise the first.
  std::string_view given(std::initializer_list<std::string_view> names) const {
    const auto is_given = [&](std::string_view name) { return find(name) != nullptr; };
    const auto* const name = std::ranges::find_if(names, is_given);
    return name != names.end() ? *name : *names.begin();
  }
  std::int64_t size(std::string_view name, std::int64_t otherwise) const {  // -1: a whole row
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    if (value->is_int64() && value->get_int64() >= -1 && value->get_int64() <= kMaxGroup)
      return value->get_int64();
    fail(name, "a size");
    return otherwise;
  }
  float positive(std::string_view name) const {  // 0 if not given
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

// The error for a supported method in an unsupported form.
inline Status refuse(QuantizationMethod method, std::string_view what) {
  return unsupported_quantization(concat(quantization_name(method), " ", what));
}

// Reads MLX's `quantization`.
Status read_mlx(const Fields& fields, Quantization& out);

}  // namespace pagoda
