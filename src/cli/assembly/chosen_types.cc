#include "cli/assembly/chosen_types.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "kernels/linear.h"
#include "kernels/weight_format.h"

namespace pagoda {
namespace {

std::string_view type_name(LinearType type) {
  switch (type) {
    case LinearType::float32:
      return "float32";
    case LinearType::bfloat16:
      return "bfloat16";
    case LinearType::int8:
      return "int8";
    case LinearType::float16:
      return "float16";
  }
  return {};
}

}  // namespace

std::string chosen_arithmetic(std::string_view dtype, std::span<const StoredMatrices> stored) {
  std::map<std::string, std::int64_t> bytes;
  std::int64_t all = 0;
  for (const StoredMatrices& matrices : stored) {
    const auto type = choose_linear_type(dtype, matrices.dtype, detected_cpu_level());
    if (!type) continue;
    LinearArithmetic arithmetic = arithmetic_with(*type, matrices.inputs);
    if (arithmetic.is_own() && *type == LinearType::int8 &&
        keeps_file_numbers(weight_format(matrices.dtype).int8_panels))
      arithmetic = {.number = InputNumber::int8, .scales = InputScale::group, .group = kSuperBlockInputs};
    const std::string inputs = linear_arithmetic_text(arithmetic);
    bytes[concat(type_name(*type), inputs.empty() ? "" : concat(" (activations ", inputs, ")"))] +=
        matrices.bytes;
    all += matrices.bytes;
  }
  std::vector<std::pair<std::string, std::int64_t>> shares(bytes.begin(), bytes.end());
  std::ranges::sort(shares, std::ranges::greater(), &std::pair<std::string, std::int64_t>::second);
  std::string text;
  for (const auto& [name, share] : shares) {
    if (share == 0 || share < all / 100) continue;
    text += concat(text.empty() ? "" : " and ", name);
  }
  return text;
}

std::string chosen_arithmetic(std::string_view dtype, const ModelSource& source) {
  std::vector<StoredMatrices> stored;
  for (const std::string& name : source.tensor_names()) {
    const TensorView& tensor = *source.find(name);
    if (tensor.shape.size() > 1) stored.push_back({tensor.dtype, tensor.bytes(), source.inputs_of(tensor)});
  }
  return chosen_arithmetic(dtype, stored);
}

std::string_view kv_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::i8:
      return "int8";
    case DType::e4m3:
      return "fp8_e4m3";
    default:
      return dtype_info(dtype).name;
  }
}

}  // namespace pagoda
