#pragma once
// Draws: a sequence of random numbers for one item (the lengths of a request, a gap between arrivals). It
// depends only on (seed, stream, item), so a workload does not change with other draws. Does not use the
// standard library's distributions, which differ between implementations.
// Sources: Box-Muller; gamma: Marsaglia & Tsang, "A simple method for generating gamma variables" (2000).
// Threads: none.
#include <cstdint>

namespace pagoda {

class Draws {
 public:
  enum class Stream : std::uint64_t { arrival = 1, length, prefix, conversation };
  Draws(std::uint64_t seed, Stream stream, std::uint64_t item);

  double uniform();  // in [0, 1)
  std::uint64_t bits();
  std::int64_t between(std::int64_t low, std::int64_t high);  // inclusive; low <= high
  double normal();                                            // mean 0, standard deviation 1
  double exponential();                                       // mean 1
  double gamma(double shape);                                 // mean `shape`; shape > 0

 private:
  std::uint64_t seed_, stream_;
  std::uint64_t position_ = 0;
};

}  // namespace pagoda
