#include "kernels/dequantize.h"

#include "base/check.h"
#include "kernels/weight_format.h"

namespace pagoda {
void dequantize(DType dtype, const std::byte* data, std::int64_t elements, float* out) {
  CHECK(elements % dtype_info(dtype).block_elements == 0);
  weight_format(dtype).decode(reinterpret_cast<const std::uint8_t*>(data), elements, out);
}

bool has_nibbles(DType dtype) { return weight_format(dtype).nibbles != nullptr; }

NibbleGroup nibble_group(DType dtype, const std::byte* row, std::int64_t group) {
  return weight_format(dtype).nibbles(reinterpret_cast<const std::uint8_t*>(row), group);
}

void dequantize_row(const TensorView& tensor, std::int64_t row, float* out) {
  const std::int64_t columns = tensor.columns();
  dequantize(tensor.dtype, tensor.data + row * dtype_bytes(tensor.dtype, columns), columns, out);
}

}  // namespace pagoda
