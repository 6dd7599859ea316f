#pragma once
// In which types a model's weights are stored, for people.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "loader/gguf.h"

namespace pagoda {

// "Q4_1", or by share "Q4_1 (71 %), Q8_0 (28 %)"; types under 1 % are left out.
std::string describe_types(const std::map<std::string, std::int64_t>& bytes_by_type);

std::string describe_types(const GgufFile& file);

}  // namespace pagoda
