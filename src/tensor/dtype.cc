#include "tensor/dtype.h"

#include <cctype>
#include <iterator>

namespace pagoda {
std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    const std::string_view candidate = kDTypes[i].name;
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
