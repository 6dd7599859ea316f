// Messages to a service manager, at a socket of its own.
#include "cli/serve/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/strings.h"

namespace pagoda {
namespace {

class Listener {
 public:
  Listener() : name_(concat("@pagoda-notify-", getpid(), "-", ++count)) {
    descriptor_ = socket(AF_UNIX, SOCK_DGRAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data() + 1, name_.size() - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Listener() { close(descriptor_); }
  const char* name() const { return name_.c_str(); }
  std::string hear() const {
    char text[256];
    const ssize_t size = recv(descriptor_, text, sizeof text, 0);
    return size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
  }
  bool silent() const {
    char text[256];
    return recv(descriptor_, text, sizeof text, MSG_DONTWAIT) < 0;
  }

 private:
  static inline int count = 0;
  std::string name_;
  int descriptor_;
};

TEST(ServiceManager, HearsWhatItIsTold) {
  const Listener listener;
  const ServiceManager manager(listener.name(), nullptr, nullptr);
  EXPECT_TRUE(manager.present());
  manager.notify("READY=1");
  EXPECT_EQ(listener.hear(), "READY=1");
  EXPECT_EQ(manager.watchdog().count(), 0);
}

TEST(ServiceManager, HearsThatWeAreAliveWhileWeAre) {
  const Listener listener;
  std::atomic<bool> alive{true};
  std::atomic<int> num_asked{0};
  const auto wait_until_asked = [&num_asked](int times) {
    for (const int until = num_asked + times; num_asked < until;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  ServiceManager manager(listener.name(), "20000", concat(getpid()).c_str());
  manager.keep_alive([&] {
    ++num_asked;
    return alive.load();
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(listener.hear(), "WATCHDOG=1");
  alive = false;
  wait_until_asked(2);  // the first may have been answered before, but is through by the second
  while (!listener.silent()) {
  }
  wait_until_asked(3);
  EXPECT_TRUE(listener.silent());
}

TEST(ServiceManager, WithoutOneNothingHappens) {
  for (const char* none : {static_cast<const char*>(nullptr), "", "relative", "x"}) {
    ServiceManager manager(none, "1000", nullptr);
    EXPECT_FALSE(manager.present());
    manager.notify("READY=1");
    manager.keep_alive([] { return true; });
  }
  const Listener listener;
  EXPECT_EQ(ServiceManager(listener.name(), "1000", "1").watchdog().count(), 0)
      << "meant for another process";
  EXPECT_EQ(ServiceManager(listener.name(), "-5", nullptr).watchdog().count(), 0);
}

}  // namespace
}  // namespace pagoda
