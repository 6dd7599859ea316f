#pragma once
// Watchdog: detects that a loop which has work makes no progress, and reports it once. Counts its own ticks
// rather than time: a stopped process or a suspended machine must not look like a hang.
//
// Only detects: the reaction is up to the caller. Threads: calls both functions on its own thread, so they
// must be safe to call from there. The destructor waits for a running on_stall.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace pagoda {

class Watchdog {
 public:
  struct Options {
    std::chrono::milliseconds tick{1000};
    int max_ticks = 30;  // consecutive ticks without a change
  };
  // `beat`: nullopt while there is no work; otherwise a number that changes as work progresses.
  Watchdog(Options options, std::function<std::optional<std::uint64_t>()> beat,
           std::function<void()> on_stall);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;

 private:
  void run();

  const Options options_;
  const std::function<std::optional<std::uint64_t>()> beat_;
  const std::function<void()> on_stall_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;  // last: started after the other members are initialised
};

}  // namespace pagoda
