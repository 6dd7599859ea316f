#include "device/emulated/rank_words.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "base/random.h"
#include "device/emulated/block_runner.h"

namespace pagoda::device::emulated {

std::uint32_t load_of_ranks(const std::uint32_t* word) {
  BlockRunner::running().note(word, sizeof(*word), AccessKind::atomic, nullptr);
  return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
}

void store_for_ranks(std::uint32_t* word, std::uint32_t value) {
  BlockRunner& runner = BlockRunner::running();
  runner.note(word, sizeof(*word), AccessKind::atomic, nullptr);
  const std::uint64_t random = random_bits(runner.order(), 2, runner.lane());
  if (random % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random / 8 % 200));
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

std::uint64_t nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void rest() { std::this_thread::yield(); }

}  // namespace pagoda::device::emulated
