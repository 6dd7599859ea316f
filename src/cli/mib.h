#pragma once
// Formats a size: "97.6 MiB".
#include <cstdint>
#include <string>

#include "base/strings.h"

namespace pagoda {

inline std::string mib(std::int64_t bytes) {
  return concat(fixed(static_cast<double>(bytes) / (1 << 20), 1), " MiB");
}

}  // namespace pagoda
