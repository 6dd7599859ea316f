// Quantization: its description in words.
#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "loader/quantization.h"

namespace pagoda {
namespace {

std::string number_text(const WeightScheme& scheme) {
  switch (scheme.number) {
    case QuantizedNumber::int2:
    case QuantizedNumber::int3:
    case QuantizedNumber::int4:
    case QuantizedNumber::int5:
    case QuantizedNumber::int6:
    case QuantizedNumber::int8:
      return concat("int", bits_of(scheme.number));
    case QuantizedNumber::e4m3:
      return "e4m3";
    case QuantizedNumber::mxfp4:
      return "MXFP4";
    case QuantizedNumber::mxfp8:
      return "MXFP8";
    case QuantizedNumber::nvfp4:
      return "NVFP4";
    case QuantizedNumber::nf4:
      return "NF4";
    case QuantizedNumber::fp4:
      return "FP4";
  }
  return {};
}

std::string scheme_text(const WeightScheme& scheme) {
  std::string out = number_text(scheme);
  if (scheme.number <= QuantizedNumber::e4m3) {
    if (scheme.scales == ScaleShape::group) out += concat(" in groups of ", scheme.group_size);
    if (scheme.scales == ScaleShape::block)
      out += concat(" in blocks of ", scheme.block_rows, "x", scheme.block_columns);
    if (scheme.scales == ScaleShape::channel) out += " by channel";
    if (scheme.scales == ScaleShape::tensor) out += " by tensor";
  }
  if (scheme.zero_points) out += ", zero points";
  if (scheme.activation_order) out += ", activation order";
  return out;
}

constexpr std::int32_t kBits[] = {2, 3, 4, 5, 6, 8};  // the integers' bits, in the order of the enum

}  // namespace

std::optional<QuantizedNumber> integer_of(std::int64_t bits) {
  const auto* const found = std::ranges::find(kBits, bits);
  if (found == std::end(kBits)) return std::nullopt;
  return static_cast<QuantizedNumber>(found - std::begin(kBits));
}

std::int32_t bits_of(QuantizedNumber integer) { return kBits[static_cast<std::size_t>(integer)]; }

std::string_view quantization_name(QuantizationMethod method) {
  switch (method) {
    case QuantizationMethod::none:
      return "none";
    case QuantizationMethod::awq:
      return "AWQ";
    case QuantizationMethod::bitnet:
      return "BitNet";
    case QuantizationMethod::bitsandbytes:
      return "bitsandbytes";
    case QuantizationMethod::compressed_tensors:
      return "compressed-tensors";
    case QuantizationMethod::fp8:
      return "FP8";
    case QuantizationMethod::gptq:
      return "GPTQ";
    case QuantizationMethod::mlx:
      return "MLX";
    case QuantizationMethod::modelopt:
      return "modelopt";
    case QuantizationMethod::mxfp4:
      return "MXFP4";
  }
  return "";
}

bool Quantization::says(QuantizedNumber number) const {
  return schemes.empty() || std::ranges::find(schemes, number, &WeightScheme::number) != schemes.end();
}

bool Quantization::says(ScaleShape scales) const {
  return schemes.empty() || std::ranges::find(schemes, scales, &WeightScheme::scales) != schemes.end();
}

std::string Quantization::text() const {
  if (method == QuantizationMethod::none) return {};
  if (schemes.empty() || method == QuantizationMethod::mxfp4 || method == QuantizationMethod::bitnet)
    return std::string(quantization_name(method));
  return concat(quantization_name(method), " (", scheme_text(schemes.front()), ")");
}

Status unsupported_quantization(std::string_view method) {
  return unimplemented(
      concat("weights quantised by ", method,
             " are not supported; supported: AWQ (gemm), BitNet, bitsandbytes (NF4, FP4, int8), "
             "compressed-tensors (int4, "
             "int8, FP8, NVFP4, MXFP4), FP8 (e4m3), GPTQ (2, 3, 4 and 8 bits), MLX, modelopt (FP8, NVFP4), "
             "MXFP4, and "
             "F32, F16 and BF16 weights, or a GGUF file"));
}

}  // namespace pagoda
