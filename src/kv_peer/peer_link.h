#pragma once
// PeerLink: a TCP connection to another server, with a deadline for all that waits: encrypted and
// authenticated if there is a secret, plain without one. It carries bytes; peer_frames.h knows what they say.
// A link that has failed once is of no use any more. Threads: one at a time, but for interrupt().
#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "kv_peer/kv_transfer_config.h"
#include "kv_peer/peer_frames.h"
#include "kv_peer/peer_secret.h"

namespace pagoda {

constexpr TimeNs kMs = 1'000'000, kSecond = 1000 * kMs;

// Whether it names this machine alone.
bool is_loopback(const PeerAddress& address);
std::string text_of(const PeerAddress& address);

// A socket that listens there, with the port that it got. invalid_argument: it cannot.
struct PeerListener {
  int fd = -1;
  std::uint16_t port = 0;
};
Result<PeerListener> listen_for_peers(const PeerAddress& address);

class PeerLink {
 public:
  // Resolves the name, which may take longer than the deadline. `secret` may be null; it is borrowed.
  static Result<std::unique_ptr<PeerLink>> connect(const PeerAddress& address, const PeerSecret* secret,
                                                   TimeNs deadline);
  // Over an accepted socket, which it takes.
  static std::unique_ptr<PeerLink> accepted(int fd, const PeerSecret* secret);
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // False: the deadline, the other side's end, or a byte that is not the other side's.
  [[nodiscard]] bool handshake(TimeNs deadline);
  [[nodiscard]] bool read(std::span<std::byte> bytes, TimeNs deadline);
  [[nodiscard]] bool write(std::span<const std::byte> bytes, TimeNs deadline);
  // Waits for the next byte alone, without taking it.
  [[nodiscard]] bool wait_for_more(TimeNs deadline);
  // Between an answer and the next question: whether the other side is still there, as far as is known.
  bool is_quiet();
  // A head, and its payload where that is small; a row's stays unread.
  struct Frame {
    PeerFrameHead head;
    std::vector<std::byte> payload;
  };
  std::optional<Frame> read_frame(TimeNs deadline);

  // All that waits, and whatever would, fails at once.
  void interrupt();
  bool timed_out() const { return timed_out_; }  // the last failure was the deadline's

 private:
  explicit PeerLink(int fd) : fd_(fd) {}
  Status try_connect(const sockaddr* address, unsigned size, TimeNs deadline);
  bool wait(short events, TimeNs deadline);
  bool wait_for_tls(int code, TimeNs deadline);

  const int fd_;
  std::unique_ptr<SSL, FreeSsl> ssl_;  // null: plain
  bool timed_out_ = false;
};

}  // namespace pagoda
