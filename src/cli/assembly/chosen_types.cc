#include "cli/assembly/chosen_types.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/strings.h"
#include "kernels/linear.h"

namespace pagoda {

std::string chosen_arithmetic(std::string_view dtype, std::span<const StoredMatrices> stored) {
  struct Share {
    LinearType type;
    std::string_view name;
    std::int64_t bytes = 0;
  };
  std::array<Share, 4> shares = {Share{LinearType::int8, "int8"}, Share{LinearType::bfloat16, "bfloat16"},
                                 Share{LinearType::float16, "float16"},
                                 Share{LinearType::float32, "float32"}};
  std::int64_t all = 0;
  for (const StoredMatrices& matrices : stored) {
    const auto type = choose_linear_type(dtype, matrices.dtype, detected_cpu_level());
    if (!type) continue;
    for (Share& share : shares) share.bytes += share.type == *type ? matrices.bytes : 0;
    all += matrices.bytes;
  }
  std::ranges::sort(shares, std::ranges::greater(), &Share::bytes);
  std::string text;
  for (const Share& share : shares) {
    if (share.bytes == 0 || share.bytes < all / 100) continue;
    text += concat(text.empty() ? "" : " and ", share.name);
  }
  return text;
}

std::string chosen_arithmetic(std::string_view dtype, const ModelSource& source) {
  std::vector<StoredMatrices> stored;
  for (const std::string& name : source.tensor_names()) {
    const TensorView& tensor = *source.find(name);
    if (tensor.shape.size() > 1) stored.push_back({tensor.dtype, tensor.bytes()});
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
    default:
      return dtype_info(dtype).name;
  }
}

}  // namespace pagoda
