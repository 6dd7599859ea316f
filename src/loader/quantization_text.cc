// Quantization: the files of a folder that say it, and how it is said in words.
#include <algorithm>

#include "base/strings.h"
#include "loader/json_object.h"
#include "loader/quantization.h"

namespace pagoda {
namespace {

namespace json = boost::json;

std::string number_text(const WeightScheme& scheme) {
  switch (scheme.number) {
    case QuantizedNumber::int4:
      return "int4";
    case QuantizedNumber::int8:
      return "int8";
    case QuantizedNumber::e4m3:
      return "e4m3";
    case QuantizedNumber::mxfp4:
      return "MXFP4";
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

}  // namespace

const json::object* quantization_object(const json::object& config) {
  const json::object* const part = language_part(config);
  for (const json::object* each : {&config, part}) {
    if (each == nullptr) continue;
    for (const std::string_view name : {"quantization_config", "compression_config", "quantization"}) {
      const json::value* how = each->if_contains(name);
      if (how != nullptr && how->is_object() && !how->get_object().empty()) return &how->get_object();
    }
  }
  return nullptr;
}

Result<Quantization> read_quantization_files(std::string_view config_json,
                                             std::optional<std::string_view> hf_quant_config) {
  const Result<json::object> config = parse_json_object(config_json, "config.json");
  if (!config) return config.error();
  if (const json::object* how = quantization_object(*config)) return read_quantization(*how);
  if (!hf_quant_config) return Quantization{};
  const Result<json::object> beside = parse_json_object(*hf_quant_config, "hf_quant_config.json");
  if (!beside) return beside.error();
  return read_quantization(*beside);
}

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
             "int8, FP8, NVFP4, MXFP4), FP8 (e4m3), GPTQ (4 and 8 bits), modelopt (FP8, NVFP4), MXFP4, and "
             "F32, F16 and BF16 weights, or a GGUF file"));
}

}  // namespace pagoda
