#pragma once
// ServiceManager: reports to the service manager that started the process (systemd, Type=notify) when the
// server is ready, when it begins to stop, and that it is alive, with the protocol of sd_notify(3): datagrams
// to a Unix socket. A no-op without a service manager. Messages that cannot be sent are dropped; the
// manager's own timeouts cover that case.
// Threads: notify() from any; keep_alive() runs a thread until destruction.
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

  // The watchdog interval that the manager expects; zero: no watchdog.
  std::chrono::microseconds watchdog() const { return watchdog_; }
  // Reports twice per interval while `alive` returns true.
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
