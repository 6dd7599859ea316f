#pragma once
// Quantization: how a Hugging Face folder's weights are quantised, in one form for all methods. Read from
// config.json's `quantization_config` (older compressed-tensors: `compression_config`), modelopt's
// hf_quant_config.json, or the files that early AutoAWQ and AutoGPTQ wrote beside config.json. It describes
// the stored numbers and the sharing of scales; the tensors themselves show which weights are quantised
// (quantized_tensors.h), so lists of ignored modules need no names of families. Unknown options are refused
// by the method's name.
// Source: transformers 5.24 utils/quantization_config.py, compressed-tensors 0.20, vLLM's documentation,
// mlx-lm 0.31.
#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/linear_arithmetic.h"

namespace pagoda {

enum class QuantizationMethod : std::uint8_t {
  none,
  awq,
  bitnet,
  bitsandbytes,
  compressed_tensors,
  fp8,
  gptq,
  mlx,
  modelopt,
  mxfp4,
};

// The numbers in which weights are stored.
enum class QuantizedNumber : std::uint8_t {
  int2,
  int3,
  int4,
  int5,
  int6,
  int8,
  e4m3,   // 8-bit floats without infinities
  mxfp8,  // e4m3 with a power of two per 32 numbers
  mxfp4,  // e2m1 with a power of two per 32 numbers
  nvfp4,  // e2m1 with an e4m3 scale per 16 numbers, and a float per tensor
  nf4,    // bitsandbytes' tables of 16 values
  fp4,
};

// The weights that share a scale.
enum class ScaleShape : std::uint8_t { tensor, channel, group, block };

struct WeightScheme {
  QuantizedNumber number = QuantizedNumber::int4;
  ScaleShape scales = ScaleShape::group;
  std::int32_t group_size = 0;                     // neighbours in a row; for ScaleShape::group
  std::int32_t block_rows = 0, block_columns = 0;  // for ScaleShape::block
  bool zero_points = false;
  bool activation_order = false;      // each column names its group
  LinearArithmetic activations = {};  // own: not quantised, or in an unsupported way
  bool operator==(const WeightScheme&) const = default;
};

struct Quantization {
  QuantizationMethod method = QuantizationMethod::none;
  // The modules' schemes: the default first, then overrides.
  std::vector<WeightScheme> schemes = {};
  bool zeros_less_one = false;  // GPTQ stores zero points minus one, except in its second format
  bool inverse_scales = false;  // BitNet stores divisors of weights, except in its second format
  // MLX: indices of schemes other than the first, by the module's name in the folder.
  std::map<std::string, std::size_t, std::less<>> modules = {};

  // True if some module's weights have this form; always true if only the tensors tell how they are stored.
  bool says(QuantizedNumber number) const;
  bool says(ScaleShape scales) const;
  // E.g. "AWQ (int4, groups of 128, zero points)"; empty: not quantised.
  std::string text() const;
};

// Returns the integer type of `bits` bits, if it exists; and the reverse.
std::optional<QuantizedNumber> integer_of(std::int64_t bits);
std::int32_t bits_of(QuantizedNumber integer);

// Returns the method's usual name.
std::string_view quantization_name(QuantizationMethod method);

// Reads the object itself. unimplemented: a method or option that is not supported, naming the method.
// corrupt_data: an impossible field.
Result<Quantization> read_quantization(const boost::json::object& how);

// Files beside config.json that may hold the description: modelopt's, AutoAWQ's and AutoGPTQ's.
inline constexpr std::array<std::string_view, 3> kQuantizationFiles = {
    "hf_quant_config.json", "quant_config.json", "quantize_config.json"};
// Returns the text of a file in the folder; nullopt if absent. An empty function means no files beside
// config.json.
using SideFile = std::function<std::optional<std::string>(std::string_view name)>;
Result<Quantization> read_quantization_files(std::string_view config_json, const SideFile& side_file);

// Returns the method's name in lower case, as stated or, if absent, as inferred from the other fields.
std::string quantization_method(const boost::json::object& how);

// Returns the object of config.json that describes the quantisation; null if absent.
const boost::json::object* quantization_object(const boost::json::object& config);

// Returns the error for weights quantised by another method.
Status unsupported_quantization(std::string_view method);

}  // namespace pagoda
