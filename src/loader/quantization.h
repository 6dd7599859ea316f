#pragma once
// Quantization: how a Hugging Face folder says that its weights are quantised, one description for all
// methods: config.json's `quantization_config` (older compressed-tensors: `compression_config`), modelopt's
// hf_quant_config.json, or what AutoAWQ and AutoGPTQ wrote beside config.json at first. It says which numbers
// the weights are, and how scales are shared; which tensors are quantised, the file's tensors say themselves
// (quantized_tensors.h), so that lists of ignored modules need no names of families. Anything that is not
// understood is refused by the method's name. Source: transformers 5.24 utils/quantization_config.py,
// compressed-tensors 0.20, vLLM's documentation, mlx-lm 0.31.
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

// The numbers that weights are stored as.
enum class QuantizedNumber : std::uint8_t {
  int2,
  int3,
  int4,
  int5,
  int6,
  int8,
  e4m3,   // 8-bit floats without infinities
  mxfp8,  // e4m3 with a power of two for 32 of them
  mxfp4,  // e2m1 with a power of two for 32 of them
  nvfp4,  // e2m1 with an e4m3 scale for 16 of them, and one float for the tensor
  nf4,    // bitsandbytes' tables of 16 values
  fp4,
};

// Weights that share a scale.
enum class ScaleShape : std::uint8_t { tensor, channel, group, block };

struct WeightScheme {
  QuantizedNumber number = QuantizedNumber::int4;
  ScaleShape scales = ScaleShape::group;
  std::int32_t group_size = 0;                     // a row's neighbours; ScaleShape::group
  std::int32_t block_rows = 0, block_columns = 0;  // ScaleShape::block
  bool zero_points = false;
  bool activation_order = false;      // columns name their group
  LinearArithmetic activations = {};  // own: they are not quantised, or in a way that is not computed here
  bool operator==(const WeightScheme&) const = default;
};

struct Quantization {
  QuantizationMethod method = QuantizationMethod::none;
  // The modules' schemes: what holds for most of them first, then those of overrides.
  std::vector<WeightScheme> schemes = {};
  bool zeros_less_one = false;  // GPTQ stores zero points less one, but not in its second format
  bool inverse_scales = false;  // BitNet stores what weights are divided by, but not in its second format
  // MLX: modules that have another scheme than the first, by their names in the folder, and which.
  std::map<std::string, std::size_t, std::less<>> modules = {};

  // Whether some module's weights are these; any may be where tensors alone say how they are stored.
  bool says(QuantizedNumber number) const;
  bool says(ScaleShape scales) const;
  // "AWQ (int4, groups of 128, zero points)"; empty: not quantised.
  std::string text() const;
};

// Integers of so many bits, where there are such; and their bits.
std::optional<QuantizedNumber> integer_of(std::int64_t bits);
std::int32_t bits_of(QuantizedNumber integer);

// The name people know the method by.
std::string_view quantization_name(QuantizationMethod method);

// Reads the object itself. unimplemented: by the method's name, a method or an option that is not supported;
// corrupt_data: a field that cannot be.
Result<Quantization> read_quantization(const boost::json::object& how);

// Files beside config.json that say it where config.json does not: modelopt's, AutoAWQ's and AutoGPTQ's.
inline constexpr std::array<std::string_view, 3> kQuantizationFiles = {
    "hf_quant_config.json", "quant_config.json", "quantize_config.json"};
// The text of a file of the folder; nullopt: there is none. Without a function there are no files beside
// config.json.
using SideFile = std::function<std::optional<std::string>(std::string_view name)>;
Result<Quantization> read_quantization_files(std::string_view config_json, const SideFile& side_file);

// The method's name in small letters, as it is written or, where it is not, as the other fields tell.
std::string quantization_method(const boost::json::object& how);

// The object of config.json that says it; null: there is none.
const boost::json::object* quantization_object(const boost::json::object& config);

// The error for weights that are quantised otherwise.
Status unsupported_quantization(std::string_view method);

}  // namespace pagoda
