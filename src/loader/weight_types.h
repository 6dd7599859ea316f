#pragma once
// Describes the types in which a model's weights are stored, for display.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "loader/gguf.h"

namespace pagoda {

// "Q4_1", or with shares "Q4_1 (71 %), Q8_0 (28 %)"; types below 1 % are omitted.
std::string describe_types(const std::map<std::string, std::int64_t>& bytes_by_type);

std::string describe_types(const GgufFile& file);

}  // namespace pagoda
