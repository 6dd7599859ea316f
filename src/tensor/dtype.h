#pragma once
// DType: the storage type of a tensor's elements (dtypes.def). Quantised types are GGML's blocks.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pagoda {

enum class DType : std::uint8_t {
#define PAGODA_DTYPE(type, name, elements, bytes, gguf) type,
#include "tensor/dtypes.def"
#undef PAGODA_DTYPE
};

struct DTypeInfo {
  std::string_view name;        // "F32", "Q4_1": as GGUF and safetensors write it
  std::int32_t block_elements;  // elements in one block; 1 for plain types
  std::int32_t block_bytes;     // bytes of one block
  std::int32_t gguf;            // number in GGUF files, or -1
};

inline constexpr DTypeInfo kDTypes[] = {
#define PAGODA_DTYPE(type, name, elements, bytes, gguf) {name, elements, bytes, gguf},
#include "tensor/dtypes.def"
#undef PAGODA_DTYPE
};

constexpr const DTypeInfo& dtype_info(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }
inline bool is_quantized(DType dtype) { return dtype_info(dtype).block_elements > 1; }

// Bytes of `elements` consecutive elements; elements must be a multiple of the block.
inline std::int64_t dtype_bytes(DType dtype, std::int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  return elements / info.block_elements * info.block_bytes;
}

// "F16" -> f16, case-insensitive; nullopt for an unknown name.
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace pagoda
