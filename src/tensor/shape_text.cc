#include "tensor/shape_text.h"

#include "base/strings.h"

namespace pagoda {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += concat(text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

}  // namespace pagoda
