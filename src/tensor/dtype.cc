#include "tensor/dtype.h"

#include <array>
#include <cctype>

namespace pagoda {
namespace {

constexpr std::array<DTypeInfo, 14> kInfo = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"I32", 1, 4},
    {"I8", 1, 1},
    {"U8", 1, 1},
    {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
}};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kInfo.size(); ++i) {
    const std::string_view candidate = kInfo[i].name;
    if (candidate.size() != name.size()) continue;
    bool equal = true;
    for (std::size_t c = 0; c < name.size(); ++c) {
      equal = equal && std::toupper(static_cast<unsigned char>(name[c])) == candidate[c];
    }
    if (equal) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace pagoda
