#pragma once
// ByteRange: a range of bytes within a text. Does not own the text.
#include <cstddef>

namespace pagoda {

struct ByteRange {
  std::size_t begin = 0, end = 0;  // [begin, end)
};

}  // namespace pagoda
