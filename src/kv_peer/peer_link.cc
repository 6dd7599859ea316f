#include "kv_peer/peer_link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace pagoda {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

Result<std::unique_ptr<addrinfo, FreeAddresses>> resolve(const PeerAddress& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
      error != 0)
    return unavailable(concat("cannot resolve ", address.host, ": ", gai_strerror(error)));
  return std::unique_ptr<addrinfo, FreeAddresses>(found);
}

void set_option(int fd, int level, int name) {
  const int on = 1;
  (void)setsockopt(fd, level, name, &on, sizeof on);
}

TimeNs now() { return SteadyClock().now(); }

}  // namespace

bool is_loopback(const PeerAddress& address) {
  return address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
}

std::string text_of(const PeerAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? concat("[", address.host, "]:", address.port) : concat(address.host, ":", address.port);
}

Result<PeerListener> listen_for_peers(const PeerAddress& address) {
  auto found = resolve(address, AI_PASSIVE);
  if (!found) return invalid_argument(found.error().message());
  const addrinfo* const first = found->get();
  const auto problem = [&](int error) {
    return invalid_argument(concat("cannot listen on ", text_of(address), ": ", std::strerror(error)));
  };
  const int fd = socket(first->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return problem(errno);
  set_option(fd, SOL_SOCKET, SO_REUSEADDR);
  constexpr int kBacklog = 64;
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (bind(fd, first->ai_addr, first->ai_addrlen) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    const int error = errno;
    close(fd);
    return problem(error);
  }
  const std::uint16_t port = bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                         : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return PeerListener{.fd = fd, .port = ntohs(port)};
}

Result<std::unique_ptr<PeerLink>> PeerLink::connect(const PeerAddress& address, const PeerSecret* secret,
                                                    TimeNs deadline) {
  auto found = resolve(address, AI_ADDRCONFIG);
  if (!found) return found.error();
  Status last = unavailable(concat(address.host, " has no address"));
  for (const addrinfo* each = found->get(); each != nullptr; each = each->ai_next) {
    const int fd = socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    std::unique_ptr<PeerLink> link(new PeerLink(fd));
    last = link->try_connect(each->ai_addr, each->ai_addrlen, deadline);
    if (!last.ok()) continue;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY);
    if (secret == nullptr) return link;
    link->ssl_ = secret->session(fd, PeerSecret::Side::client);
    if (link->ssl_ == nullptr) return internal_error("no memory for TLS");
    if (link->handshake(deadline)) return link;
    return unavailable("it does not have this secret, or does not speak the protocol");
  }
  return last;
}

Status PeerLink::try_connect(const sockaddr* address, unsigned size, TimeNs deadline) {
  int error = ::connect(fd_, address, size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    if (!wait(POLLOUT, deadline)) return unavailable("no answer");
    socklen_t length = sizeof error;
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  }
  return error == 0 ? ok_status() : unavailable(std::strerror(error));
}

std::unique_ptr<PeerLink> PeerLink::accepted(int fd, const PeerSecret* secret) {
  std::unique_ptr<PeerLink> link(new PeerLink(fd));
  set_option(fd, IPPROTO_TCP, TCP_NODELAY);
  if (secret == nullptr) return link;
  link->ssl_ = secret->session(fd, PeerSecret::Side::server);
  return link->ssl_ == nullptr ? nullptr : std::move(link);
}

PeerLink::~PeerLink() {
  ssl_.reset();
  close(fd_);
}

void PeerLink::interrupt() { (void)shutdown(fd_, SHUT_RDWR); }

bool PeerLink::wait(short events, TimeNs deadline) {
  pollfd entry{.fd = fd_, .events = events, .revents = 0};
  for (;;) {
    const TimeNs left = deadline - now();
    timed_out_ = left <= 0;
    if (timed_out_) return false;
    const int ready =
        poll(&entry, 1, static_cast<int>(std::min<TimeNs>(left / kMs + 1, std::int32_t{60'000})));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool PeerLink::wait_for_tls(int code, TimeNs deadline) {
  switch (SSL_get_error(ssl_.get(), code)) {
    case SSL_ERROR_WANT_READ:
      return wait(POLLIN, deadline);
    case SSL_ERROR_WANT_WRITE:
      return wait(POLLOUT, deadline);
    default:
      timed_out_ = false;
      return false;
  }
}

bool PeerLink::handshake(TimeNs deadline) {
  while (ssl_ != nullptr) {
    ERR_clear_error();
    const int code = SSL_do_handshake(ssl_.get());
    if (code == 1) return true;
    if (!wait_for_tls(code, deadline)) return false;
  }
  return true;
}

bool PeerLink::read(std::span<std::byte> bytes, TimeNs deadline) {
  while (!bytes.empty()) {
    if (ssl_ != nullptr) {
      ERR_clear_error();
      std::size_t count = 0;
      const int code = SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
      if (code == 1)
        bytes = bytes.subspan(count);
      else if (!wait_for_tls(code, deadline))
        return false;
      continue;
    }
    const ssize_t count = recv(fd_, bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EAGAIN) {
      if (!wait(POLLIN, deadline)) return false;
    } else if (count == 0 || errno != EINTR) {
      timed_out_ = false;
      return false;
    }
  }
  return true;
}

bool PeerLink::write(std::span<const std::byte> bytes, TimeNs deadline) {
  while (!bytes.empty()) {
    if (ssl_ != nullptr) {
      ERR_clear_error();
      std::size_t count = 0;
      const int code = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
      if (code == 1)
        bytes = bytes.subspan(count);
      else if (!wait_for_tls(code, deadline))
        return false;
      continue;
    }
    const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      if (!wait(POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      timed_out_ = false;
      return false;
    }
  }
  return true;
}

bool PeerLink::wait_for_more(TimeNs deadline) {
  if (ssl_ != nullptr && SSL_pending(ssl_.get()) > 0) return true;
  return wait(POLLIN, deadline);
}

bool PeerLink::is_quiet() {
  pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 0;
}

std::optional<PeerLink::Frame> PeerLink::read_frame(TimeNs deadline) {
  std::array<std::byte, PeerFrameHead::kBytes> bytes;
  if (!read(bytes, deadline)) return std::nullopt;
  const auto head = parse_head(bytes);
  if (!head) return std::nullopt;
  Frame frame{.head = *head, .payload = {}};
  if (head->type == PeerFrameType::row) return frame;
  // Grow the buffer as bytes arrive, so that a header alone allocates no memory.
  constexpr std::size_t kPiece = 64 << 10;
  while (frame.payload.size() < head->size) {
    const std::size_t have = frame.payload.size();
    frame.payload.resize(std::min<std::size_t>(have + kPiece, head->size));
    if (!read(std::span(frame.payload).subspan(have), deadline)) return std::nullopt;
  }
  return frame;
}

}  // namespace pagoda
