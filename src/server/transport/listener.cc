#include "server/transport/listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using asio::ip::tcp;

constexpr int kBacklog = 4096;

Result<tcp::endpoint> resolve(asio::io_context& io, const std::string& host, std::uint16_t port) {
  ErrorCode error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, port);
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty())
    return invalid_argument(concat("--host ", host, ": cannot resolve this address"));
  tcp::endpoint endpoint = *found.begin();
  for (const auto& entry : found)
    if (entry.endpoint().address().is_v4()) endpoint = entry.endpoint();
  return endpoint;
}

// True if a server answers at `address`. A path without a server was left by a killed server.
bool answers(const sockaddr_un& address) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;
  const int result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool refused = result != 0 && errno == ECONNREFUSED;
  ::close(fd);
  return !refused;
}

Status problem(const std::string& name, const std::string& what) {
  return invalid_argument(concat("cannot listen on ", name, ": ", what));
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::tcp(asio::io_context& io, const std::string& host,
                                                std::uint16_t port) {
  Result<asio::ip::tcp::endpoint> endpoint = resolve(io, host, port);
  if (!endpoint) return endpoint.error();
  std::unique_ptr<Listener> made(new Listener(io, concat(host, ":", port)));
  made->loopback_ = endpoint->address().is_loopback();
  ErrorCode error;
  made->acceptor_.open(asio::generic::stream_protocol(endpoint->protocol()), error);
  if (!error) made->acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) made->acceptor_.bind(asio::generic::stream_protocol::endpoint(*endpoint), error);
  if (error)
    return problem(made->name_,
                   error == asio::error::address_in_use ? "the port is in use" : error.message());
  return made;
}

Result<std::unique_ptr<Listener>> Listener::local(asio::io_context& io, const std::string& path,
                                                  unsigned mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return problem(path, concat("a socket's path has 1 to ", sizeof address.sun_path - 1, " bytes"));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) return problem(path, "a file that is not a socket is in the way");
    if (answers(address)) return problem(path, "another server listens on it");
    ::unlink(path.c_str());
  }
  std::unique_ptr<Listener> made(new Listener(io, path));
  ErrorCode error;
  made->acceptor_.open(asio::generic::stream_protocol(AF_UNIX, 0), error);
  if (!error) made->acceptor_.bind(asio::generic::stream_protocol::endpoint(&address, sizeof address), error);
  if (error) return problem(path, error.message());
  made->path_ = path;  // from here on, close() removes it
  // Clients cannot connect before listen(), so changing the mode here is early enough.
  if (::chmod(path.c_str(), mode) != 0 || ::lstat(path.c_str(), &there) != 0)
    return problem(path, std::strerror(errno));
  made->inode_ = there.st_ino;
  return made;
}

Status Listener::listen() {
  ErrorCode error;
  acceptor_.listen(kBacklog, error);
  if (!error) return ok_status();
  return problem(name_, error == asio::error::address_in_use ? "the port is in use" : error.message());
}

void Listener::close() {
  ErrorCode ignored;
  acceptor_.close(ignored);
  struct stat there{};
  if (!path_.empty() && ::lstat(path_.c_str(), &there) == 0 && there.st_ino == inode_)
    ::unlink(path_.c_str());
  path_.clear();
}

std::uint16_t Listener::port() const {
  ErrorCode error;
  const auto endpoint = acceptor_.local_endpoint(error);
  asio::ip::tcp::endpoint ip;
  if (error || is_local() || endpoint.size() > ip.capacity()) return 0;
  std::memcpy(ip.data(), endpoint.data(), endpoint.size());
  return ip.port();
}

}  // namespace pagoda
