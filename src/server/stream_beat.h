#pragma once
// StreamBeat: wakes its owner when a stream has been idle for an interval, so that the owner sends a ping. A
// busy stream costs one timer per interval. Threads: the connection's strand.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace pagoda {

class StreamBeat {
 public:
  // `wake` may be called after the StreamBeat's destruction.
  StreamBeat(boost::asio::any_io_executor executor, std::chrono::milliseconds interval,
             std::function<void()> wake)
      : interval_(interval), wake_(std::move(wake)), timer_(std::move(executor)) {
    restart();
  }

  bool is_due() const { return Clock::now() >= due_; }
  // Called when something has been sent.
  void restart() { due_ = Clock::now() + interval_; }
  // Called before a wait.
  void arm() {
    if (timer_.expiry() > Clock::now()) return;  // checked again when it expires
    timer_.expires_at(due_);
    timer_.async_wait([wake = wake_](boost::system::error_code error) {
      if (!error) wake();
    });
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds interval_;
  const std::function<void()> wake_;
  Clock::time_point due_;
  boost::asio::steady_timer timer_;
};

}  // namespace pagoda
