#include "loader/quantized_weight.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "tensor/half_floats.h"
#include "tensor/shape_text.h"
#include "tensor/small_floats.h"

namespace pagoda {
namespace {

// Returns 2^(bits - 127); 255 is NaN.
float power_of_two(std::uint8_t bits) {
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  return bits == 0 ? 0x1p-127f : std::bit_cast<float>(std::uint32_t{bits} << 23);
}

}  // namespace

std::string scale_name(const StoredTensors& stored, const std::string& name) {
  const std::string of_stack = name + "_weight_scale";
  return !stored.contains(name + "_scale") && stored.contains(of_stack) ? of_stack : name + "_scale";
}

Status wrong_shape(const FileTensor& tensor, std::string_view why) {
  return bad_tensor(tensor.name, "has shape ", shape_text(tensor.shape), ", ", why);
}

Result<LinearArithmetic> inputs_of(const Quantization& how, const StoredTensors& stored,
                                   const QuantizedWeight& weight, const std::string& name) {
  const WeightScheme* scheme = nullptr;
  for (const WeightScheme& each : how.schemes) {
    if (each.number != weight.number) continue;
    if (scheme == nullptr || (each.scales == weight.scales && scheme->scales != weight.scales))
      scheme = &each;
  }
  if (scheme == nullptr) return LinearArithmetic{};
  LinearArithmetic inputs = scheme->activations;
  if (inputs.is_own() || inputs.scales != InputScale::fixed) return inputs;
  const std::string module = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  for (const std::string_view end :
       {".input_scale", ".activation_scale", "_input_scale", "_activation_scale"}) {
    if (!stored.contains(module + std::string(end))) continue;
    PAGODA_ASSIGN_OR_RETURN(const ScaleValues scales, ScaleValues::find(stored, module + std::string(end)));
    for (std::int64_t i = 0; i < scales.count(); ++i) {
      float scale = 0;
      PAGODA_RETURN_IF_ERROR(scales.read(i, scale));
      inputs.scale = std::max(inputs.scale, scale);
    }
    if (inputs.scale > 0) return inputs;
    return bad_tensor(scales.name(), "has no scale above 0");
  }
  inputs.scales = InputScale::row;  // some modules have no scale
  return inputs;
}

Result<FileTensor> stored_tensor(const StoredTensors& stored, const std::string& name) {
  const auto found = stored.find(name);
  if (found == stored.end()) return bad_tensor(name, "is missing");
  return found->second;
}

Result<FileTensor> find_part(const StoredTensors& stored, const std::string& name, std::string_view type,
                             std::size_t dimensions) {
  PAGODA_ASSIGN_OR_RETURN(const FileTensor found, stored_tensor(stored, name));
  if (found.type != type) return bad_tensor(name, "has dtype ", found.type, " instead of ", type);
  if (found.shape.size() != dimensions)
    return wrong_shape(found, concat("and needs ", dimensions, " dimensions"));
  return found;
}

Result<ScaleValues> ScaleValues::find(const StoredTensors& stored, const std::string& name) {
  struct Type {
    std::string_view name;
    Kind kind;
  };
  constexpr Type kTypes[] = {{"F32", Kind::f32},      {"F16", Kind::f16},      {"BF16", Kind::bf16},
                             {"F8_E4M3", Kind::e4m3}, {"F8_E8M0", Kind::e8m0}, {"U8", Kind::e8m0}};
  ScaleValues out;
  PAGODA_ASSIGN_OR_RETURN(out.tensor_, stored_tensor(stored, name));
  for (const Type& type : kTypes) {
    if (type.name != out.tensor_.type) continue;
    out.kind_ = type.kind;
    return out;
  }
  return bad_tensor(name, "has dtype ", out.tensor_.type, ", which no scale has");
}

float ScaleValues::stored_at(std::int64_t index) const {
  const auto load = [&]<class T>(T value) {
    std::memcpy(&value, tensor_.data + index * static_cast<std::int64_t>(sizeof value), sizeof value);
    return value;
  };
  switch (kind_) {
    case Kind::f32:
      return load(0.0f);
    case Kind::f16:
      return half_to_float(load(std::uint16_t{}));
    case Kind::bf16:
      return bfloat16_to_float(load(std::uint16_t{}));
    case Kind::e4m3:
      return e4m3_value(load(std::uint8_t{}));
    case Kind::e8m0:
      return power_of_two(load(std::uint8_t{}));
  }
  return 0;
}

Status ScaleValues::read(std::int64_t index, float& value) const {
  value = stored_at(index) / divisor_;
  if (inverse_ && std::isfinite(value)) value = 1 / value;
  if (std::isfinite(value)) return ok_status();
  return bad_tensor(tensor_.name, "has a scale that is not a number, at ", index);
}

}  // namespace pagoda
