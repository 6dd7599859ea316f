#pragma once
// ServiceManager: tells the service manager that started us (systemd, Type=notify) when we serve, when we
// begin to end, and that we are alive, by the protocol of sd_notify(3): datagrams to a Unix socket. Without
// one it does nothing. A message that cannot be sent is lost: the manager's own limits tell it the same.
// Threads: notify() from any; keep_alive() has one of its own until the end.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace pagoda {

class ServiceManager {
 public:
  // The values of NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID; null: not set.
  ServiceManager(const char* socket, const char* watchdog_usec, const char* watchdog_pid);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;

  bool present() const { return !socket_.empty(); }
  void notify(std::string_view state) const;  // "READY=1"

  // How often it wants to hear that we are alive; zero: never.
  std::chrono::microseconds watchdog() const { return watchdog_; }
  // Says so twice in that time, while `alive` says so.
  void keep_alive(std::function<bool()> alive);

 private:
  std::string socket_;
  std::chrono::microseconds watchdog_{0};
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace pagoda
