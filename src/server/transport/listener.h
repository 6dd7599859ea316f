#pragma once
// Listener: accepts connections at a TCP address or a Unix socket's path. Binds first and listens later, so
// that clients that connect too early are refused. A path left by a dead server is taken over; a path that a
// live server uses, or that is not a socket, is an error. close() removes the path that the listener created.
// Errors: invalid_argument that names the address. Threads: as an Asio acceptor.
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace pagoda {

class Listener {
 public:
  using Acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

  static Result<std::unique_ptr<Listener>> tcp(boost::asio::io_context& io, const std::string& host,
                                               std::uint16_t port);
  // `mode`: permissions of the socket's file, in effect before listen().
  static Result<std::unique_ptr<Listener>> local(boost::asio::io_context& io, const std::string& path,
                                                 unsigned mode);
  ~Listener() { close(); }
  Listener(const Listener&) = delete;

  Status listen();
  void close();
  Acceptor& acceptor() { return acceptor_; }
  bool is_local() const { return !path_.empty(); }
  bool is_loopback() const { return loopback_; }  // a TCP address only reachable from this machine
  std::uint16_t port() const;                     // TCP port
  const std::string& name() const { return name_; }

 private:
  Listener(boost::asio::io_context& io, std::string name) : acceptor_(io), name_(std::move(name)) {}
  Acceptor acceptor_;
  std::string name_, path_;
  std::uint64_t inode_ = 0;  // the path's inode; another server may have taken the path over
  bool loopback_ = false;
};

}  // namespace pagoda
