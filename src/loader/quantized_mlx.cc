// MLX's weights: [.., out, words], a row's codes packed from the lowest bits of its words on, in any width.
// Integers have scales and minima (`biases`) in separate tensors; floats have scales as bytes: NVFP4 e4m3
// numbers without a number per tensor, MXFP4 and MXFP8 powers of two. Source: MLX's quantize(), and its
// README of quantisation modes.
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/integer_weight.h"
#include "loader/printable.h"
#include "tensor/shape_text.h"

namespace pagoda {
namespace {

const WeightScheme& scheme_of(const Quantization& how, const std::string& module) {
  const auto own = how.modules.find(module);
  return how.schemes[own == how.modules.end() ? 0 : own->second];
}

Result<QuantizedWeight> integers(const Quantization& how, const WeightScheme& scheme,
                                 const StoredTensors& stored, const FileTensor& weight,
                                 const std::string& module) {
  PAGODA_ASSIGN_OR_RETURN(ScaleValues scales, ScaleValues::find(stored, module + ".scales"));
  PAGODA_ASSIGN_OR_RETURN(ScaleValues minima, ScaleValues::find(stored, module + ".biases"));
  for (const ScaleValues* each : {&scales, &minima})
    if (!each->is_float()) return bad_tensor(each->name(), "has another type than scales of integers");
  Integers of{.name = weight.name, .bits = bits_of(scheme.number), .group_size = scheme.group_size};
  const std::int64_t words = weight.shape.back();
  of.groups = scales.shape().empty() ? 0 : scales.shape().back();
  of.columns = of.groups * of.group_size;
  of.shape = weight.shape;
  of.shape.back() = of.groups;
  if (of.groups < 1 || scales.shape() != of.shape || words * 32 != of.columns * of.bits)
    return bad_tensor(scales.name(), "has shape ", shape_text(scales.shape()),
                      ", which does not fit to codes of ", shape_text(weight.shape), " in ", how.text());
  if (minima.shape() != of.shape)
    return bad_tensor(minima.name(), "has shape ", shape_text(minima.shape()), " instead of its scales' ",
                      shape_text(of.shape));
  of.shape.back() = of.columns;
  of.rows = weight.elements() / words;
  of.by_row = of.groups;
  of.by_group = 1;
  of.scales = std::move(scales);
  of.minima = std::move(minima);
  of.codes = [weight, words, columns = of.columns, bits = of.bits](std::int64_t first, std::int64_t count,
                                                                   std::uint8_t* to) {
    for (std::int64_t row = first; row < first + count; ++row, to += columns)
      read_codes(weight, row * words, 1, bits, columns, to);
  };
  return weight_of(std::move(of), {weight.name, module + ".scales", module + ".biases"});
}

// Passes the same bytes to other packages' readers, under the names that they expect.
Result<QuantizedWeight> floats(const WeightScheme& scheme, const StoredTensors& stored,
                               const FileTensor& weight, const std::string& module) {
  static constexpr float kOne = 1;
  const std::string name = module + ".weight";
  PAGODA_ASSIGN_OR_RETURN(FileTensor scales, stored_tensor(stored, module + ".scales"));
  if (scales.type != "U8") return bad_tensor(scales.name, "has dtype ", scales.type, " instead of U8");
  const bool is_mxfp8 = scheme.number == QuantizedNumber::mxfp8;
  FileTensor codes = weight;
  codes.shape.back() *= 4;
  std::vector<std::int64_t> groups = codes.shape;
  groups.back() = codes.shape.back() * (is_mxfp8 ? 1 : 2) / scheme.group_size;
  if (scales.shape != groups)
    return wrong_shape(scales, concat("which does not fit to codes of ", shape_text(weight.shape)));
  codes.type = is_mxfp8 ? "F8_E4M3" : "U8";
  codes.dtype.reset();
  if (scheme.number == QuantizedNumber::nvfp4) scales.type = "F8_E4M3";
  const StoredTensors renamed = {{name, codes},
                                 {name + "_scale", scales},
                                 {name + "_scale_2",
                                  {.name = name,
                                   .type = "F32",
                                   .dtype = DType::f32,
                                   .shape = {},
                                   .data = reinterpret_cast<const std::byte*>(&kOne),
                                   .bytes = 4}}};
  const Quantization blocks{
      .method = QuantizationMethod::mlx,
      .schemes = {
          {.number = scheme.number, .scales = ScaleShape::block, .block_rows = 1, .block_columns = 32}}};
  auto out = is_mxfp8 ? float8_weight(blocks, renamed, codes) : float4_weight(blocks, renamed, codes);
  if (!out) return out;
  out->number = scheme.number;
  out->parts = {weight.name, module + ".scales"};
  return out;
}

}  // namespace

Result<QuantizedWeight> mlx_weight(const Quantization& how, const StoredTensors& stored,
                                   const FileTensor& weight) {
  const std::string module = weight.name.substr(0, weight.name.rfind(".weight"));
  if (weight.shape.size() < 2 || weight.elements() == 0)
    return wrong_shape(weight, "and needs two dimensions or more");
  const WeightScheme& scheme = scheme_of(how, module);
  return scheme.number <= QuantizedNumber::int8 ? integers(how, scheme, stored, weight, module)
                                                : floats(scheme, stored, weight, module);
}

}  // namespace pagoda
