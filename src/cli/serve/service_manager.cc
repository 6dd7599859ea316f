#include "cli/serve/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <utility>

namespace pagoda {
namespace {

std::int64_t number(const char* text) {
  std::int64_t out = 0;
  if (text == nullptr) return 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, out);
  return error == std::errc() && stopped == end && out > 0 ? out : 0;
}

}  // namespace

ServiceManager::ServiceManager(const char* socket, const char* watchdog_usec, const char* watchdog_pid) {
  if (socket == nullptr || (socket[0] != '/' && socket[0] != '@')) return;
  if (std::strlen(socket) >= sizeof(sockaddr_un{}.sun_path)) return;
  socket_ = socket;
  const bool ours = watchdog_pid == nullptr || number(watchdog_pid) == getpid();
  if (ours) watchdog_ = std::chrono::microseconds(number(watchdog_usec));
}

ServiceManager::~ServiceManager() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ServiceManager::notify(std::string_view state) const {
  if (!present()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';  // abstract namespace
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  (void)::sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), size);
  ::close(descriptor);
}

void ServiceManager::keep_alive(std::function<bool()> alive) {
  if (!present() || watchdog_.count() == 0 || thread_.joinable()) return;
  thread_ = std::thread([this, alive = std::move(alive)] {
    std::unique_lock lock(mutex_);
    do {
      if (alive()) notify("WATCHDOG=1");
    } while (!ended_changed_.wait_for(lock, watchdog_ / 2, [this] { return ended_; }));
  });
}

}  // namespace pagoda
