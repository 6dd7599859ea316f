#pragma once
// ReadAhead: what will be read soon. Products of matrices bring it into the cache on their way, a few lines
// with each of their steps, since arithmetic bounds them, and memory the attention over K and V that comes
// after them. A hint: no result depends on it, and the addresses need not be mapped. Owner: the caller of the
// products; calls to take() are on its thread.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagoda {

class ReadAhead {
 public:
  // All of one size, a multiple of 64 bytes.
  std::vector<const std::byte*> pieces;
  std::int64_t piece_bytes = 0;

  // From the first byte on, spread evenly over `work` multiplications.
  void start(std::int64_t work) { next_ = 0, work_ = work; }

  // The share of a product of so many multiplications: bytes of all pieces, one after the other.
  struct Range {
    std::int64_t begin = 0, end = 0;
  };
  Range take(std::int64_t work) {
    const std::int64_t rest = static_cast<std::int64_t>(pieces.size()) * piece_bytes - next_;
    const double share = work < work_ ? static_cast<double>(work) / static_cast<double>(work_) : 1.0;
    const Range range = {next_, next_ + static_cast<std::int64_t>(static_cast<double>(rest) * share)};
    next_ = range.end;
    work_ = std::max<std::int64_t>(work_ - work, 0);
    return range;
  }

 private:
  std::int64_t next_ = 0, work_ = 0;
};

}  // namespace pagoda
