#pragma once
// DType: how the elements of a tensor are stored. Quantised types are GGML's blocks, numbers included.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pagoda {

enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  i32,
  i8,
  u8,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k
};

struct DTypeInfo {
  std::string_view name;        // "F32", "Q4_1": as GGUF and safetensors write it
  std::int32_t block_elements;  // elements in one block; 1 for plain types
  std::int32_t block_bytes;     // bytes of one block
};

const DTypeInfo& dtype_info(DType dtype);
inline bool is_quantized(DType dtype) { return dtype_info(dtype).block_elements > 1; }

// Bytes of `elements` consecutive elements; elements must be a multiple of the block.
inline std::int64_t dtype_bytes(DType dtype, std::int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  return elements / info.block_elements * info.block_bytes;
}

// "F16" -> f16, any case; nullopt for a name that Pagoda does not read.
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace pagoda
