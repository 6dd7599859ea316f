#pragma once
// StreamBeat: wakes its owner when a stream has been silent for an interval, so that it sends a ping. A
// stream that is never silent costs one timer per interval. Threads: the connection's strand.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace pagoda {

class StreamBeat {
 public:
  // `wake` may be called after this has been destroyed.
  StreamBeat(boost::asio::any_io_executor executor, std::chrono::milliseconds interval,
             std::function<void()> wake)
      : interval_(interval), wake_(std::move(wake)), timer_(std::move(executor)) {
    restart();
  }

  bool is_due() const { return Clock::now() >= due_; }
  // Something has been sent.
  void restart() { due_ = Clock::now() + interval_; }
  // Before a wait.
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
