#include "server/transport/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <climits>
#include <cstring>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr int kUnsentBytes = 32 << 10;  // unsent bytes in a socket's buffer
// A handshake takes some kilobytes; with the longest accepted certificate chain, at most this much.
constexpr std::uint64_t kMaxHandshakeBytes = 256 << 10;

}  // namespace

Transport::Transport(Socket socket, std::shared_ptr<const TlsContext> tls)
    : socket_(std::move(socket)), context_(std::move(tls)) {
  ErrorCode ignored;
  socket_.non_blocking(true, ignored);
  const int fd = socket_.native_handle(), on = 1;
  // Both options fail on Unix sockets, where they do not apply.
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Without this, a full socket becomes writable only once a third of its buffer (maybe megabytes) is sent,
  // and a slow reader would appear to read nothing.
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof kUnsentBytes);
  if (context_ == nullptr) return;
  tls_ = context_->new_session(fd);
  if (tls_ == nullptr) close();
}

Transport::~Transport() { close(); }

std::string Transport::peer() const {
  ErrorCode error;
  const auto endpoint = socket_.remote_endpoint(error);
  if (error) return {};
  const sockaddr* address = endpoint.data();
  if (address->sa_family == AF_UNIX) {
    ucred who{};
    socklen_t size = sizeof who;
    auto& socket = const_cast<Socket&>(socket_);  // getsockopt() does not modify it
    if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return "uid:unknown";
    return concat("uid:", who.uid);
  }
  asio::ip::tcp::endpoint ip;
  if (endpoint.size() > ip.capacity()) return {};
  std::memcpy(ip.data(), address, endpoint.size());
  ip.resize(endpoint.size());
  return ip.address().to_string();
}

ErrorCode Transport::tls_error(int result) {
  const int kind = SSL_get_error(tls_.get(), result);
  wants_write_ = kind == SSL_ERROR_WANT_WRITE;
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return asio::error::would_block;
  ERR_clear_error();
  if (kind == SSL_ERROR_ZERO_RETURN) return asio::error::eof;
  broken_ = true;
  return kind == SSL_ERROR_SYSCALL ? asio::error::connection_reset : asio::error::connection_aborted;
}

std::size_t Transport::tls_read(asio::mutable_buffer space, ErrorCode& error) {
  error = asio::error::eof;
  if (broken_ || !socket_.is_open()) return 0;
  ERR_clear_error();
  std::size_t count = 0;
  const int result = SSL_read_ex(tls_.get(), space.data(), space.size(), &count);
  error = result == 1 ? ErrorCode() : tls_error(result);
  return result == 1 ? count : 0;
}

asio::awaitable<ErrorCode> Transport::handshake() {
  if (tls_ == nullptr) co_return asio::error::no_memory;
  for (;;) {
    ERR_clear_error();
    const int result = SSL_accept(tls_.get());
    if (result == 1) co_return ErrorCode();
    if (const ErrorCode error = tls_error(result); error != asio::error::would_block) co_return error;
    if (BIO_number_read(SSL_get_rbio(tls_.get())) > kMaxHandshakeBytes) co_return asio::error::message_size;
    const auto direction = wants_write_ ? Socket::wait_write : Socket::wait_read;
    const auto [failed] = co_await socket_.async_wait(direction, kAsTuple);
    if (failed) co_return failed;
    if (!socket_.is_open()) co_return asio::error::eof;
  }
}

asio::awaitable<Transport::Read> Transport::read_some(asio::mutable_buffer space) {
  Read read;
  if (tls_ == nullptr) {
    const auto [error, count] = co_await socket_.async_read_some(space, kAsTuple);
    read.error = error;
    read.count = count;
    co_return read;
  }
  for (;;) {
    read.count = tls_read(space, read.error);
    if (read.error != asio::error::would_block) co_return read;
    const auto direction = wants_write_ ? Socket::wait_write : Socket::wait_read;
    const auto [failed] = co_await socket_.async_wait(direction, kAsTuple);
    if (!failed) continue;
    read.error = failed;
    co_return read;
  }
}

void Transport::async_read(asio::mutable_buffer space, ReadHandler done) {
  if (tls_ == nullptr) {
    socket_.async_read_some(space, std::move(done));
    return;
  }
  ErrorCode error;
  const std::size_t count = tls_read(space, error);
  if (error != asio::error::would_block) {
    asio::post(socket_.get_executor(), [done = std::move(done), error, count] { done(error, count); });
    return;
  }
  const auto direction = wants_write_ ? Socket::wait_write : Socket::wait_read;
  // `done` keeps the owner of this Transport alive.
  socket_.async_wait(direction, [this, space, done = std::move(done)](ErrorCode failed) mutable {
    if (failed) return done(failed, 0);
    async_read(space, std::move(done));
  });
}

std::size_t Transport::write_now(std::string_view data, ErrorCode& error) {
  error = {};
  if (tls_ == nullptr) return socket_.write_some(asio::buffer(data.data(), data.size()), error);
  std::size_t written = 0;
  while (written < data.size()) {
    error = asio::error::broken_pipe;
    if (broken_ || !socket_.is_open()) break;
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_write_ex(tls_.get(), data.data() + written, data.size() - written, &count);
    error = result == 1 ? ErrorCode() : tls_error(result);
    if (error) break;
    written += count;
  }
  return written;
}

asio::awaitable<ErrorCode> Transport::wait_to_write() {
  const auto [error] = co_await socket_.async_wait(Socket::wait_write, kAsTuple);
  co_return error;
}

bool Transport::peer_has_left() {
  if (!socket_.is_open()) return true;
  pollfd entry{.fd = socket_.native_handle(), .events = 0, .revents = 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

void Transport::cancel() {
  ErrorCode ignored;
  socket_.cancel(ignored);
}

void Transport::finish_sending() {
  ErrorCode ignored;
  if (tls_ != nullptr && !broken_ && socket_.is_open()) {
    ERR_clear_error();
    (void)SSL_shutdown(tls_.get());
    ERR_clear_error();
  }
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void Transport::close() {
  if (!socket_.is_open()) return;
  if (tls_ != nullptr && !broken_ && SSL_is_init_finished(tls_.get()) == 1) {
    ERR_clear_error();
    (void)SSL_shutdown(tls_.get());  // sends close_notify; the peer's reply does not matter
    ERR_clear_error();
  }
  broken_ = true;
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace pagoda
