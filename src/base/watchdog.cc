#include "base/watchdog.h"

#include <utility>

namespace pagoda {

Watchdog::Watchdog(Options options, std::function<std::optional<std::uint64_t>()> beat,
                   std::function<void()> on_stall)
    : options_(options), beat_(std::move(beat)), on_stall_(std::move(on_stall)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  thread_.join();
}

void Watchdog::run() {
  std::optional<std::uint64_t> last;
  int ticks = 0;
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, options_.tick, [this] { return ended_; })) {
    const std::optional<std::uint64_t> now = beat_();
    ticks = now && now == last ? ticks + 1 : 0;
    last = now;
    if (ticks < options_.max_ticks) continue;
    lock.unlock();
    on_stall_();
    return;
  }
}

}  // namespace pagoda
