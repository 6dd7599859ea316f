#pragma once
// Watchdog: notices that a loop which has work does not get on, and says so once. It counts its own ticks,
// not the clock: a process that was stopped as a whole, or a machine that slept, is not a loop that hangs.
//
// Not the cure: what happens then is the caller's. Threads: one of its own, which calls both functions; they
// must be safe from it. Its end waits for on_stall.
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
    int max_ticks = 30;  // in a row without a change
  };
  // `beat`: nothing while there is no work; else a number that changes as work gets on.
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
  std::thread thread_;  // last
};

}  // namespace pagoda
