// The measurement of the peaks of peak.h; included by the file of each instruction level.
#include <chrono>

namespace pagoda::bench {
namespace {

template <class Body>
double best_rate(double operations, const Body& body) {
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = operations / time.count() * 1e-9 > best ? operations / time.count() * 1e-9 : best;
  }
  return best;
}

// Independent chains hide the latency; the operands are opaque to the compiler.
constexpr int kLoops = 400000, kChains = 12;

}  // namespace
}  // namespace pagoda::bench
