#pragma once
// PeerLink: a TCP connection to another server, with a deadline on every blocking call. It is encrypted and
// authenticated if a secret is given, and plain otherwise. It only transports bytes; peer_frames.h defines
// the messages. After the first failure a link is unusable. Threads: one at a time, except for interrupt().
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

// True if the address is a loopback address.
bool is_loopback(const PeerAddress& address);
std::string text_of(const PeerAddress& address);

// A listening socket and the port that it is bound to. invalid_argument: the address cannot be bound.
struct PeerListener {
  int fd = -1;
  std::uint16_t port = 0;
};
Result<PeerListener> listen_for_peers(const PeerAddress& address);

class PeerLink {
 public:
  // Resolves the host name first, which may take longer than the deadline. `secret` may be null; it is
  // borrowed.
  static Result<std::unique_ptr<PeerLink>> connect(const PeerAddress& address, const PeerSecret* secret,
                                                   TimeNs deadline);
  // Wraps an accepted socket and takes ownership of it.
  static std::unique_ptr<PeerLink> accepted(int fd, const PeerSecret* secret);
  ~PeerLink();
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // These return false after the deadline, when the peer closes the connection, or if a byte fails
  // authentication.
  [[nodiscard]] bool handshake(TimeNs deadline);
  [[nodiscard]] bool read(std::span<std::byte> bytes, TimeNs deadline);
  [[nodiscard]] bool write(std::span<const std::byte> bytes, TimeNs deadline);
  // Waits until a byte can be read, without consuming it.
  [[nodiscard]] bool wait_for_more(TimeNs deadline);
  // To be called between an answer and the next request: true if the peer is still connected, as far as is
  // known.
  bool is_quiet();
  // A header and its payload. The payload of a row is left unread.
  struct Frame {
    PeerFrameHead head;
    std::vector<std::byte> payload;
  };
  std::optional<Frame> read_frame(TimeNs deadline);

  // Makes all current and future calls fail at once.
  void interrupt();
  bool timed_out() const { return timed_out_; }  // the last failure was a timeout

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
