// Weights in 4-bit floats (e2m1), two per byte, the first in the lower half. NVFP4: an e4m3 scale per 16
// neighbours, and a number per tensor by which scales are multiplied (modelopt, weight_scale_2) or divided
// (compressed-tensors, weight_global_scale). MXFP4: a power of two per 32 neighbours; gpt-oss stores bytes
// [.., rows, blocks, 16].
#include <cstring>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "loader/quantized_weight.h"
#include "tensor/shape_text.h"
#include "tensor/small_floats.h"

namespace pagoda {
namespace {

// NVFP4's number per tensor, or per stacked matrix.
struct Global {
  ScaleValues values = {};
  bool divides = false;
};

Result<Global> global_of(const StoredTensors& stored, const std::string& name, const std::string& scale,
                         std::int64_t matrices, std::vector<std::string>& parts) {
  Global out{.divides = stored.contains(name + "_global_scale")};
  parts.push_back(out.divides ? name + "_global_scale" : scale + "_2");
  PAGODA_ASSIGN_OR_RETURN(auto values, ScaleValues::find(stored, parts.back()));
  out.values = std::move(values);
  if (out.values.count() != 1 && out.values.count() != matrices)
    return bad_tensor(parts.back(), "has ", out.values.count(), " numbers for ", matrices,
                      matrices == 1 ? " matrix" : " matrices");
  return out;
}

// Inputs of decoding NVFP4, to values or to blocks of DType::nvfp4_scaled.
struct Nvfp4 {
  FileTensor codes;
  ScaleValues scales;
  const std::byte* stored_scales = nullptr;
  Global global = {};
  std::int64_t matrix_rows = 0, columns = 0;

  // Reads the tensor's number for this row. corrupt_data: it is invalid.
  Status whole(std::int64_t row, float& value) const {
    PAGODA_RETURN_IF_ERROR(global.values.read(global.values.count() == 1 ? 0 : row / matrix_rows, value));
    if (!global.divides || value != 0) return ok_status();
    return bad_tensor(global.values.name(), "is 0");
  }
};

Status decode_values(const Nvfp4& of, std::int64_t first, std::int64_t count, std::byte* to) {
  auto* values = reinterpret_cast<float*>(to);
  for (std::int64_t row = first; row < first + count; ++row) {
    float whole = 0;
    PAGODA_RETURN_IF_ERROR(of.whole(row, whole));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(of.codes.data) + row * of.columns / 2;
    for (std::int64_t group = 0; group < of.columns / 16; ++group, bytes += 8) {
      float scale = 0;
      PAGODA_RETURN_IF_ERROR(of.scales.read(row * (of.columns / 16) + group, scale));
      scale = of.global.divides ? scale / whole : scale * whole;
      for (int i = 0; i < 8; ++i) {
        *values++ = kE2m1Values[bytes[i] & 15] * scale;
        *values++ = kE2m1Values[bytes[i] >> 4] * scale;
      }
    }
  }
  return ok_status();
}

// Repacks 32 codes from two neighbours per byte to i and i + 16 per byte.
void put_codes(const std::byte* pairs, std::byte* to) {
  const auto element = [&](int i) { return pairs[i / 2] >> (i % 2 * 4) & std::byte{15}; };
  for (int i = 0; i < 16; ++i) to[i] = element(i) | element(i + 16) << 4;
}

// DType::nvfp4_scaled: the factor and divisor of scales, 4 scales and 64 codes.
Status decode_nvfp4(const Nvfp4& of, std::int64_t first, std::int64_t count, std::byte* to) {
  const std::int64_t blocks = of.columns / 64;
  for (std::int64_t row = first; row < first + count; ++row) {
    float whole = 0, unused = 0;
    PAGODA_RETURN_IF_ERROR(of.whole(row, whole));
    const float factors[2] = {of.global.divides ? 1 : whole, of.global.divides ? whole : 1};
    for (std::int64_t block = row * blocks; block < (row + 1) * blocks; ++block) {
      for (std::int64_t scale = 4 * block; scale < 4 * block + 4; ++scale)
        PAGODA_RETURN_IF_ERROR(of.scales.read(scale, unused));
      std::memcpy(to, factors, 8);
      std::memcpy(to + 8, of.stored_scales + 4 * block, 4);
      put_codes(of.codes.data + 32 * block, to + 12);
      put_codes(of.codes.data + 32 * block + 16, to + 28);
      to += 44;
    }
  }
  return ok_status();
}

// Checks that there is a scale per `group` neighbours.
Status check_groups(const FileTensor& scales, const QuantizedWeight& weight, std::int64_t group) {
  std::vector<std::int64_t> needed = weight.shape;
  needed.back() /= group;
  if (scales.shape == needed && weight.columns() % group == 0) return ok_status();
  return bad_tensor(scales.name, "has shape ", shape_text(scales.shape),
                    ", which does not fit to weights of ", shape_text(weight.shape));
}

// DType::mxfp4: the power of two precedes bytes of elements i and i + 16.
Status decode_mxfp4(const FileTensor& codes, const FileTensor& powers, std::int64_t columns,
                    std::int64_t first, std::int64_t count, std::byte* to) {
  const std::int64_t blocks = columns / 32;
  for (std::int64_t block = first * blocks; block < (first + count) * blocks; ++block) {
    if (powers.data[block] == std::byte{255})
      return bad_tensor(powers.name, "has a scale that is not a number, at ", block);
    *to++ = powers.data[block];
    put_codes(codes.data + block * 16, to);
    to += 16;
  }
  return ok_status();
}

Result<QuantizedWeight> mxfp4_weight(QuantizedWeight out, const FileTensor& codes, const FileTensor& powers) {
  PAGODA_RETURN_IF_ERROR(check_groups(powers, out, 32));
  out.number = QuantizedNumber::mxfp4;
  out.dtype = DType::mxfp4;
  out.decode = [codes, powers, columns = out.columns()](std::int64_t first, std::int64_t count,
                                                        std::byte* to) {
    return decode_mxfp4(codes, powers, columns, first, count, to);
  };
  return out;
}

}  // namespace

Result<QuantizedWeight> mxfp4_blocks_weight(const Quantization&, const StoredTensors& stored,
                                            const FileTensor& weight) {
  if (weight.shape.size() < 3 || weight.shape.back() != 16)
    return wrong_shape(weight, "and needs blocks of 16 bytes");
  const std::string name = weight.name.substr(0, weight.name.rfind("_blocks")) + "_scales";
  PAGODA_ASSIGN_OR_RETURN(const FileTensor powers, find_part(stored, name, "U8", weight.shape.size() - 1));
  QuantizedWeight out{.shape = weight.shape, .parts = {weight.name, name}};
  out.shape.pop_back();
  out.shape.back() *= 32;
  return mxfp4_weight(std::move(out), weight, powers);
}

Result<QuantizedWeight> float4_weight(const Quantization&, const StoredTensors& stored,
                                      const FileTensor& weight) {
  std::string name = weight.name;
  if (name.ends_with("_packed")) name.resize(name.size() - std::string_view("_packed").size());
  if (weight.shape.size() < 2) return wrong_shape(weight, "and needs two dimensions or more");
  const std::string scale = scale_name(stored, name);
  PAGODA_ASSIGN_OR_RETURN(const ScaleValues scales, ScaleValues::find(stored, scale));
  QuantizedWeight out{.shape = weight.shape, .parts = {weight.name, scale}};
  out.shape.back() *= 2;
  const std::int64_t columns = out.columns(), matrix_rows = weight.shape[weight.shape.size() - 2];
  const FileTensor powers = stored.find(scale)->second;
  if (powers.type == "U8" || powers.type == "F8_E8M0") return mxfp4_weight(std::move(out), weight, powers);
  PAGODA_RETURN_IF_ERROR(check_groups(powers, out, 16));
  if (powers.type != "F8_E4M3")
    return bad_tensor(powers.name, "has dtype ", powers.type, ", which no scale of 4-bit floats has");
  const Result<Global> global =
      global_of(stored, name, scale, matrix_rows > 0 ? out.rows() / matrix_rows : 0, out.parts);
  if (!global) return global.error();
  out.number = QuantizedNumber::nvfp4;
  const bool as_stored = columns % 64 == 0;
  if (as_stored) out.dtype = DType::nvfp4_scaled;
  out.decode = [of = Nvfp4{weight, scales, powers.data, *global, matrix_rows, columns}, as_stored](
                   std::int64_t first, std::int64_t count, std::byte* to) {
    return as_stored ? decode_nvfp4(of, first, count, to) : decode_values(of, first, count, to);
  };
  return out;
}

}  // namespace pagoda
