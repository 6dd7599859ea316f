#pragma once
// ReadAhead: memory that will be read soon. Matrix products prefetch it into the cache, a few lines per step,
// because they are bound by arithmetic, while the attention over K and V that follows is bound by memory. A
// hint: no result depends on it, and the addresses need not be mapped. Owner: the caller of the products,
// whose thread calls take().
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagoda {

class ReadAhead {
 public:
  // All of one size, a multiple of 64 bytes: first the pieces that thread 0 will read, then thread 1's, ...
  std::vector<const std::byte*> pieces;
  std::int64_t piece_bytes = 0;
  std::vector<std::size_t> ends;  // the end of each thread's pieces

  // Starts over, prefetching evenly over the `work` multiplications that follow the next `idle` ones.
  void start(std::int64_t idle, std::int64_t work) { done_ = 0, idle_ = idle, work_ = work; }

  // The part of each thread's pieces that a product prefetches, as a range of fractions from 0 to 1.
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

  // The part of one tile of the product: a byte range of all pieces, in order. Thread t computes tiles t, t +
  // n, ...
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
