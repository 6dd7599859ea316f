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
  // All of one size, a multiple of 64 bytes: first what the first thread will read, then the second's, ...
  std::vector<const std::byte*> pieces;
  std::int64_t piece_bytes = 0;
  std::vector<std::size_t> ends;  // ends of each thread's pieces

  // From the first byte on, spread evenly over `work` multiplications that come after `idle` others.
  void start(std::int64_t idle, std::int64_t work) { done_ = 0, idle_ = idle, work_ = work; }

  // The share of a product of so many multiplications, in each thread's pieces: from which part of them to
  // which, of 1.
  struct Share {
    double begin = 0, end = 0;
  };
  Share take(std::int64_t work) {
    const std::int64_t idle = std::min(idle_, work);
    idle_ -= idle;
    work -= idle;
    if (work == 0) return {done_, done_};
    const double part = work < work_ ? static_cast<double>(work) / static_cast<double>(work_) : 1.0;
    const Share share = {done_, done_ + (1.0 - done_) * part};
    done_ = share.end;
    work_ = std::max<std::int64_t>(work_ - work, 0);
    return share;
  }

  // The part of a tile of the product: bytes of all pieces, one after the other. Thread t has tiles t, t + n,
  // ...
  struct Range {
    std::int64_t begin = 0, end = 0;
  };
  Range of_tile(const Share& share, std::int64_t tile, std::int64_t tiles) const {
    const auto threads = static_cast<std::int64_t>(ends.size()), thread = tile % threads;
    const std::int64_t own_tiles = (tiles - thread + threads - 1) / threads;
    const std::size_t first = thread == 0 ? 0 : ends[static_cast<std::size_t>(thread - 1)],
                      last = ends[static_cast<std::size_t>(thread)];
    const auto at = [&](std::int64_t index) {
      const double part = share.begin + (share.end - share.begin) * static_cast<double>(index) /
                                            static_cast<double>(own_tiles);
      const auto bytes = static_cast<std::int64_t>(
          static_cast<double>(static_cast<std::int64_t>(last - first) * piece_bytes) * part);
      return static_cast<std::int64_t>(first) * piece_bytes + bytes / 64 * 64;
    };
    return {at(tile / threads), at(tile / threads + 1)};
  }

 private:
  double done_ = 0;
  std::int64_t idle_ = 0, work_ = 0;
};

}  // namespace pagoda
