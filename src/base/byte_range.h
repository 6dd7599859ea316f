#pragma once
// ByteRange: a part of a text, by bytes. It does not hold the text.
#include <cstddef>

namespace pagoda {

struct ByteRange {
  std::size_t begin = 0, end = 0;  // [begin, end)
};

}  // namespace pagoda
