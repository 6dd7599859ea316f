#pragma once
// Formats a shape for messages: "[4096, 11008]".
#include <cstdint>
#include <span>
#include <string>

namespace pagoda {

std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace pagoda
