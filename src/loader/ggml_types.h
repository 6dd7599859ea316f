#pragma once
// The tensor types of GGML by number, so that a message can name a type that Pagoda does not read.
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
  std::optional<DType> dtype;  // set for the types that models are run from
};

// Null for a number that GGML has not (or no longer) given to a type.
const GgmlType* find_ggml_type(std::uint32_t number);

// "F32, F16, ...": the types with a dtype.
std::string supported_ggml_types();

}  // namespace pagoda
