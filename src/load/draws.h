#pragma once
// Draws: a run of random numbers that belongs to one thing (one request's lengths, one gap between arrivals)
// and depends on (seed, stream, item) only, so that a workload is the same whatever else is drawn.
// Not the standard library's distributions: those differ between libraries.
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
  std::int64_t between(std::int64_t low, std::int64_t high);  // both included; low <= high
  double normal();                                            // mean 0, standard deviation 1
  double exponential();                                       // mean 1
  double gamma(double shape);                                 // mean `shape`; shape > 0

 private:
  std::uint64_t seed_, stream_;
  std::uint64_t position_ = 0;
};

}  // namespace pagoda
