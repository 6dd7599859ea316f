#pragma once
// Transport: the byte stream of one connection, over TCP or a Unix socket, with or without TLS. No HTTP and
// no timeouts: the caller sets them (connection.h). TLS runs in the same loop, on the socket itself: OpenSSL
// reads and writes what the socket can take, and the loop waits when it wants more. Invariants: at most one
// read and one write at a time; no call blocks. Errors are codes, as for a plain socket: eof if the peer has
// closed its side. Threads: one strand.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "server/transport/tls.h"

namespace pagoda {

class Transport {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using ErrorCode = boost::system::error_code;
  using ReadHandler = std::function<void(ErrorCode, std::size_t)>;

  // With a context: uses TLS; handshake() must be called first.
  Transport(Socket socket, std::shared_ptr<const TlsContext> tls);
  ~Transport();

  boost::asio::any_io_executor get_executor() { return socket_.get_executor(); }
  bool is_tls() const { return tls_ != nullptr; }
  // The peer's IP address, or "uid:N" of the user at the other end of a Unix socket.
  std::string peer() const;

  boost::asio::awaitable<ErrorCode> handshake();
  struct Read {
    ErrorCode error;
    std::size_t count = 0;
  };
  boost::asio::awaitable<Read> read_some(boost::asio::mutable_buffer space);
  // Likewise; `done` is called later, never from within async_read().
  void async_read(boost::asio::mutable_buffer space, ReadHandler done);
  // Returns the number of bytes written immediately. would_block: none now; call wait_to_write() next.
  std::size_t write_now(std::string_view data, ErrorCode& error);
  boost::asio::awaitable<ErrorCode> wait_to_write();

  // True if the peer is known to have closed both directions. TCP only detects this after something was sent.
  bool peer_has_left();
  void cancel();
  void finish_sending();
  void close();

 private:
  // Converts the failure of an SSL call to an error code; for would_block it sets wants_write_.
  ErrorCode tls_error(int result);
  std::size_t tls_read(boost::asio::mutable_buffer space, ErrorCode& error);

  Socket socket_;
  std::shared_ptr<const TlsContext> context_;
  SslSession tls_;  // destroyed before its socket
  bool wants_write_ = false;
  bool broken_ = false;  // OpenSSL must not be called again
};

}  // namespace pagoda
