// Measures the current speed of the machine and prints one line of JSON: memory read bandwidth in GB/s, and
// the multiply-add rates of float32, bfloat16 and int8 in G/s (peak.h), over all threads at once. Benches of
// whole engines run it before and after each measurement, since other processes may share the memory.
//   machine_probe [THREADS [LEVEL]]    avx2: the bound for kernels without AVX-512
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "peak.h"
#include "tensor/memory.h"

namespace pagoda::bench {
namespace {

// Runs `body` on `count` threads at once, so that they share power and memory like the threads of an engine.
template <class Body>
void on_threads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

double read_gbps(int count) {
  const std::size_t part = (std::size_t{256} << 20) / static_cast<std::size_t>(count) / 4096 * 4096;
  const auto memory = Memory::reserve(part * static_cast<std::size_t>(count));  // in huge pages, like weights
  if (!memory) return 0;
  std::memset(memory->data(), 1, memory->size());
  volatile float sink = 0;
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<float> sums(static_cast<std::size_t>(count));
    on_threads(count, [&](int i) {
      sums[static_cast<std::size_t>(i)] = read_all(memory->data() + part * static_cast<std::size_t>(i), part);
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    for (const float sum : sums) sink = sink + sum;
    best = std::max(best, static_cast<double>(memory->size()) / time.count() * 1e-9);
  }
  return best;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  using namespace pagoda::bench;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int count = std::clamp(argc > 1 ? std::atoi(argv[1]) : cores, 1, 256);
  std::vector<Peak> peaks(static_cast<std::size_t>(count));
  pagoda::CpuLevel level = pagoda::detected_cpu_level();
  if (argc > 2) level = std::min(level, pagoda::cpu_level_named(argv[2]).value_or(level));
  on_threads(count, [&](int i) { peaks[static_cast<std::size_t>(i)] = measure_peak(level); });
  Peak all;
  for (const Peak& peak : peaks) {
    all.fma_gflops += peak.fma_gflops;
    all.bf16_gflops += peak.bf16_gflops;
    all.int8_gops += peak.int8_gops;
  }
  std::printf(
      "{\"threads\": %d, \"level\": \"%s\", \"read_gbps\": %.1f, \"f32_gflops\": %.0f, \"bf16_gflops\": "
      "%.0f, \"int8_gops\": %.0f}\n",
      count, std::string(pagoda::cpu_level_name(level)).c_str(), read_gbps(count), all.fma_gflops,
      all.bf16_gflops, all.int8_gops);
  return 0;
}
