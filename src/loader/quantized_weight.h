#pragma once
// QuantizedWeight: one weight that a folder stores quantised, in a few tensors, with its dequantised meaning.
// The makers, one per way of storing, check all shapes against each other and against the description
// (quantization.h), and read bytes only when rows are requested. Rows are decoded to float32, or to blocks
// that hold the stored numbers exactly if such a type exists (int4, int8, MXFP4).
// Threads: `decode` may be called concurrently.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "loader/quantization.h"
#include "loader/safetensors.h"
#include "tensor/dtype.h"

namespace pagoda {

using StoredTensors = std::map<std::string, FileTensor, std::less<>>;

struct QuantizedWeight {
  QuantizedNumber number = QuantizedNumber::int4;
  ScaleShape scales = ScaleShape::group;
  DType dtype = DType::f32;             // type of decoded rows
  std::vector<std::int64_t> shape;      // [.., out, in]
  std::vector<std::string> parts = {};  // stored tensors that it consists of
  LinearArithmetic inputs = {};         // as its scheme requires
  // Decodes rows first to first + count - 1, counting all outer dimensions together, into `to`. corrupt_data:
  // a scale or weight is not a number.
  std::function<Status(std::int64_t first, std::int64_t count, std::byte* to)> decode = {};

  std::int64_t columns() const { return shape.back(); }
  std::int64_t rows() const {
    std::int64_t product = 1;
    for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) product *= shape[axis];
    return product;
  }
};

// `weight`: the tensor that holds the numbers. corrupt_data: parts are missing or do not fit together.
using MakeWeight = Result<QuantizedWeight>(const Quantization& how, const StoredTensors& stored,
                                           const FileTensor& weight);
MakeWeight float8_weight;
MakeWeight int8_weight;     // I8 in rows, including bitsandbytes'
MakeWeight packed_weight;   // compressed-tensors' 4 and 8 bits
MakeWeight ternary_weight;  // BitNet's, four per byte
MakeWeight gptq_weight, awq_weight;
MakeWeight float4_weight;        // NVFP4 of modelopt and compressed-tensors, MXFP4 of compressed-tensors
MakeWeight mxfp4_blocks_weight;  // gpt-oss'
MakeWeight bitsandbytes_weight;
MakeWeight mlx_weight;  // integers of 2 to 8 bits, MXFP4, MXFP8, NVFP4

// Returns how the scheme of `weight`, named `name`, quantises its inputs. corrupt_data: an invalid fixed
// scale of inputs.
Result<LinearArithmetic> inputs_of(const Quantization& how, const StoredTensors& stored,
                                   const QuantizedWeight& weight, const std::string& name);

// A stored tensor's values: F32, F16, BF16, F8_E4M3, F8_E8M0, or U8 as powers of two.
class ScaleValues {
 public:
  ScaleValues() = default;
  // corrupt_data: the tensor is absent or of another type.
  static Result<ScaleValues> find(const StoredTensors& stored, const std::string& name);

  const std::vector<std::int64_t>& shape() const { return tensor_.shape; }
  std::int64_t count() const { return tensor_.elements(); }
  bool is_float() const { return kind_ <= Kind::bf16; }  // 16 or 32 bits
  bool has_16_bits() const { return kind_ == Kind::f16 || kind_ == Kind::bf16; }
  // corrupt_data: the value is not finite.
  Status read(std::int64_t index, float& value) const;
  const std::string& name() const { return tensor_.name; }
  void divide_by(float number) { divisor_ = number; }
  void invert() { inverse_ = true; }

 private:
  float stored_at(std::int64_t index) const;
  enum class Kind : std::uint8_t { f32, f16, bf16, e4m3, e8m0 };
  FileTensor tensor_;
  Kind kind_ = Kind::f32;
  float divisor_ = 1;
  bool inverse_ = false;
};

// Returns the name of the scale of `name`: NAME_scale, or NAME_weight_scale for stacked experts.
std::string scale_name(const StoredTensors& stored, const std::string& name);

// corrupt_data: "tensor 'NAME' " followed by the fault.
template <class... Parts>
Status bad_tensor(std::string_view name, const Parts&... what) {
  return corrupt_data(concat("tensor '", printable(name), "' ", what...));
}

// corrupt_data: the tensor is missing.
Result<FileTensor> stored_tensor(const StoredTensors& stored, const std::string& name);
// corrupt_data: the tensor is missing, or has another type or number of dimensions.
Result<FileTensor> find_part(const StoredTensors& stored, const std::string& name, std::string_view type,
                             std::size_t dimensions);

Status wrong_shape(const FileTensor& tensor, std::string_view why);

}  // namespace pagoda
