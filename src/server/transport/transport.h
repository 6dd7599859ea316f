#pragma once
// Transport: the bytes of one connection, over TCP or a Unix socket, plain or by TLS. Not HTTP, and no limits
// of time: who waits sets them (connection.h). TLS runs in the same loop, on the socket itself: OpenSSL reads
// and writes what the socket has, and where it wants more the loop waits. Invariants: at most one read and
// one write at a time; no call blocks. Errors come as codes, as of a plain socket: eof where the peer has
// ended its side. Threads: one strand.
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

  // With a context: TLS, and handshake() comes first.
  Transport(Socket socket, std::shared_ptr<const TlsContext> tls);
  ~Transport();

  boost::asio::any_io_executor get_executor() { return socket_.get_executor(); }
  bool is_tls() const { return tls_ != nullptr; }
  // An IP address, or "uid:N" of who is behind a Unix socket.
  std::string peer() const;

  boost::asio::awaitable<ErrorCode> handshake();
  struct Read {
    ErrorCode error;
    std::size_t count = 0;
  };
  boost::asio::awaitable<Read> read_some(boost::asio::mutable_buffer space);
  // The same; `done` is called later, never from within.
  void async_read(boost::asio::mutable_buffer space, ReadHandler done);
  // Returns what was taken at once; would_block: nothing now, call wait_to_write() next.
  std::size_t write_now(std::string_view data, ErrorCode& error);
  boost::asio::awaitable<ErrorCode> wait_to_write();

  // That the peer has ended both sides, as far as the system has been told: TCP tells it once something was
  // sent.
  bool peer_has_left();
  void cancel();
  void finish_sending();
  void close();

 private:
  // The meaning of an SSL call's failure; would_block sets wants_write_.
  ErrorCode tls_error(int result);
  std::size_t tls_read(boost::asio::mutable_buffer space, ErrorCode& error);

  Socket socket_;
  std::shared_ptr<const TlsContext> context_;
  SslSession tls_;  // ends before its socket
  bool wants_write_ = false;
  bool broken_ = false;  // OpenSSL must not be asked again
};

}  // namespace pagoda
