#pragma once
// Listener: one place where connections arrive: a TCP address or a Unix socket's path. Binds first and
// listens later, so that who connects too early is refused. A path that a dead server left is taken over; one
// that a live server answers, or that is no socket, is an error. What it made at a path goes with it. Errors:
// invalid_argument that names the address. Threads: as an Asio acceptor.
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
  // `mode`: of the file, from the first moment on.
  static Result<std::unique_ptr<Listener>> local(boost::asio::io_context& io, const std::string& path,
                                                 unsigned mode);
  ~Listener() { close(); }
  Listener(const Listener&) = delete;

  Status listen();
  void close();
  Acceptor& acceptor() { return acceptor_; }
  bool is_local() const { return !path_.empty(); }
  bool is_loopback() const { return loopback_; }  // a TCP address of this machine alone
  std::uint16_t port() const;                     // TCP port
  const std::string& name() const { return name_; }

 private:
  Listener(boost::asio::io_context& io, std::string name) : acceptor_(io), name_(std::move(name)) {}
  Acceptor acceptor_;
  std::string name_, path_;
  std::uint64_t inode_ = 0;  // inode of the path: another server may have taken it over since
  bool loopback_ = false;
};

}  // namespace pagoda
