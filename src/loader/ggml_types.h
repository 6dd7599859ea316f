#pragma once
// GGML's tensor types by number, including types that Pagoda does not support, so that messages can name
// them.
// Source: ggml.h and ggml-common.h; block sizes as in the gguf package's GGML_QUANT_SIZES.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace pagoda {

struct GgmlType {
  std::string_view name;
  std::int32_t block_elements;
  std::int32_t block_bytes;
  std::optional<DType> dtype;  // set for types that models can run from
};

// Returns null for a number that GGML does not (or no longer) use.
const GgmlType* find_ggml_type(std::uint32_t number);

// "F32, F16, ...": all types with a dtype.
std::string supported_ggml_types();

}  // namespace pagoda
