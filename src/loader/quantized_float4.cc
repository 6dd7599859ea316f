// Weights in 4-bit floats (e2m1), two to a byte, the first in the lower half. NVFP4: an e4m3 scale for 16
// neighbours, and a number for the tensor by which modelopt multiplies scales (weight_scale_2) and
// compressed-tensors divides them (weight_global_scale). MXFP4: a power of two for 32 neighbours.
#include <cstring>

#include "base/strings.h"
#include "loader/printable.h"
#include "loader/quantized_weight.h"
#include "tensor/shape_text.h"

namespace pagoda {
namespace {

constexpr float kE2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// NVFP4's number of the tensor, or of each stacked matrix.
struct Global {
  ScaleValues values = {};
  bool divides = false;
};

Result<Global> global_of(const StoredTensors& stored, const std::string& name, std::int64_t matrices,
                         std::vector<std::string>& parts) {
  Global out{.divides = stored.contains(name + "_global_scale")};
  parts.push_back(name + (out.divides ? "_global_scale" : "_scale_2"));
  auto values = ScaleValues::find(stored, parts.back());
  if (!values) return values.error();
  out.values = *std::move(values);
  if (out.values.count() != 1 && out.values.count() != matrices)
    return corrupt_data(concat("tensor '", printable(parts.back()), "' has ", out.values.count(),
                               " numbers for ", matrices, matrices == 1 ? " matrix" : " matrices"));
  return out;
}

Status decode_nvfp4(const SafetensorsTensor& codes, const ScaleValues& scales, const Global& global,
                    std::int64_t matrix_rows, std::int64_t columns, std::int64_t first, std::int64_t count,
                    std::byte* to) {
  auto* values = reinterpret_cast<float*>(to);
  for (std::int64_t row = first; row < first + count; ++row) {
    float whole = 0;
    PAGODA_RETURN_IF_ERROR(global.values.read(global.values.count() == 1 ? 0 : row / matrix_rows, whole));
    if (global.divides && whole == 0)
      return corrupt_data(concat("tensor '", printable(global.values.name()), "' is 0"));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(codes.data) + row * columns / 2;
    for (std::int64_t group = 0; group < columns / 16; ++group, bytes += 8) {
      float scale = 0;
      PAGODA_RETURN_IF_ERROR(scales.read(row * (columns / 16) + group, scale));
      scale = global.divides ? scale / whole : scale * whole;
      for (int i = 0; i < 8; ++i) {
        *values++ = kE2m1[bytes[i] & 15] * scale;
        *values++ = kE2m1[bytes[i] >> 4] * scale;
      }
    }
  }
  return ok_status();
}

// DType::mxfp4: the power of two before elements i and i + 16 in a byte.
Status decode_mxfp4(const SafetensorsTensor& codes, const SafetensorsTensor& powers, std::int64_t columns,
                    std::int64_t first, std::int64_t count, std::byte* to) {
  const std::int64_t blocks = columns / 32;
  for (std::int64_t block = first * blocks; block < (first + count) * blocks; ++block) {
    if (powers.data[block] == std::byte{255})
      return corrupt_data(
          concat("tensor '", printable(powers.name), "' has a scale that is no number, at ", block));
    *to++ = powers.data[block];
    const std::byte* const pairs = codes.data + block * 16;
    const auto element = [&](int i) { return pairs[i / 2] >> (i % 2 * 4) & std::byte{15}; };
    for (int i = 0; i < 16; ++i) *to++ = element(i) | element(i + 16) << 4;
  }
  return ok_status();
}

}  // namespace

Result<QuantizedWeight> float4_weight(const Quantization&, const StoredTensors& stored,
                                      const SafetensorsTensor& weight) {
  std::string name = weight.name;
  if (name.ends_with("_packed")) name.resize(name.size() - std::string_view("_packed").size());
  if (weight.shape.size() < 2) return wrong_shape(weight, "and needs two dimensions or more");
  const Result<ScaleValues> scales = ScaleValues::find(stored, name + "_scale");
  if (!scales) return scales.error();
  QuantizedWeight out{.shape = weight.shape, .parts = {weight.name, name + "_scale"}};
  out.shape.back() *= 2;
  const std::int64_t columns = out.columns(), matrix_rows = weight.shape[weight.shape.size() - 2];
  const SafetensorsTensor powers = stored.find(name + "_scale")->second;
  const bool is_mxfp4 = powers.type == "U8" || powers.type == "F8_E8M0";
  std::vector<std::int64_t> needed = out.shape;
  needed.back() /= is_mxfp4 ? 32 : 16;
  if (powers.shape != needed || columns % (is_mxfp4 ? 32 : 16) != 0)
    return corrupt_data(concat("tensor '", printable(powers.name), "' has shape ", shape_text(powers.shape),
                               ", which does not fit to weights of ", shape_text(out.shape)));
  if (is_mxfp4) {
    out.number = QuantizedNumber::mxfp4;
    out.dtype = DType::mxfp4;
    out.decode = [weight, powers, columns](std::int64_t first, std::int64_t count, std::byte* to) {
      return decode_mxfp4(weight, powers, columns, first, count, to);
    };
    return out;
  }
  if (powers.type != "F8_E4M3")
    return corrupt_data(concat("tensor '", printable(powers.name), "' has dtype ", powers.type,
                               ", which is none of a scale of 4-bit floats"));
  const Result<Global> global =
      global_of(stored, name, matrix_rows > 0 ? out.rows() / matrix_rows : 0, out.parts);
  if (!global) return global.error();
  out.number = QuantizedNumber::nvfp4;
  out.decode = [weight, scales = *scales, global = *global, matrix_rows, columns](
                   std::int64_t first, std::int64_t count, std::byte* to) {
    return decode_nvfp4(weight, scales, global, matrix_rows, columns, first, count, to);
  };
  return out;
}

}  // namespace pagoda
