#include "hub/outgoing_connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace pagoda {
namespace {

Status broken(std::string_view what, int error) {
  return unavailable(concat(what, ": ", std::strerror(error)));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

Result<std::unique_ptr<OutgoingConnection>> OutgoingConnection::open(const Url& url, int timeout_s) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); error != 0)
    return unavailable(concat("cannot resolve ", url.host, ": ", gai_strerror(error)));
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  Status last = unavailable(concat(url.host, " has no address"));
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    const int socket = ::socket(each->ai_family, each->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    std::unique_ptr<OutgoingConnection> connection(new OutgoingConnection(socket, timeout_s));
    int error = connect(socket, each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      last = connection->wait(POLLOUT);
      if (!last.ok()) continue;
      socklen_t length = sizeof error;
      if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    }
    if (error != 0) {
      last = broken(concat("cannot connect to ", url.authority()), error);
      continue;
    }
    if (url.tls) PAGODA_RETURN_IF_ERROR(connection->start_tls(url.host));
    return connection;
  }
  return last;
}

OutgoingConnection::~OutgoingConnection() {
  if (ssl_ != nullptr) SSL_shutdown(ssl_.get());  // sends close_notify without waiting for the reply
  ssl_.reset();
  close(socket_);
}

Status OutgoingConnection::start_tls(const std::string& host) {
  ERR_clear_error();
  context_.reset(SSL_CTX_new(TLS_client_method()));
  if (context_ == nullptr || SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_default_verify_paths(context_.get()) != 1)
    return internal_error("OpenSSL cannot set up TLS");
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  ssl_.reset(SSL_new(context_.get()));
  if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), socket_) != 1)
    return internal_error("OpenSSL cannot set up TLS");
  const bool named = is_address(host)
                         ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) == 1
                         : SSL_set1_host(ssl_.get(), host.c_str()) == 1 &&
                               SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1;
  if (!named) return invalid_argument(concat("TLS: ", host, " is not a valid host name"));
  for (;;) {
    ERR_clear_error();
    const int code = SSL_connect(ssl_.get());
    if (code == 1) return ok_status();
    if (const Status status = wait_for_tls(code); !status.ok()) {
      const long verdict = SSL_get_verify_result(ssl_.get());
      if (verdict == X509_V_OK) return status;
      return invalid_argument(concat("TLS: the certificate of ", host,
                                     " is not valid: ", X509_verify_cert_error_string(verdict)));
    }
  }
}

Status OutgoingConnection::wait(short events) const {
  pollfd entry{.fd = socket_, .events = events, .revents = 0};
  for (;;) {
    const int ready = poll(&entry, 1, timeout_s_ * 1000);
    if (ready > 0) return ok_status();
    if (ready == 0) return unavailable(concat("no answer for ", timeout_s_, " s"));
    if (errno != EINTR) return broken("cannot wait for the network", errno);
  }
}

Status OutgoingConnection::wait_for_tls(int code) {
  switch (SSL_get_error(ssl_.get(), code)) {
    case SSL_ERROR_WANT_READ:
      return wait(POLLIN);
    case SSL_ERROR_WANT_WRITE:
      return wait(POLLOUT);
    default:
      return unavailable("the TLS connection broke");
  }
}

Status OutgoingConnection::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (ssl_ != nullptr) {
      ERR_clear_error();
      const int count = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
      if (count > 0)
        bytes.remove_prefix(static_cast<std::size_t>(count));
      else
        PAGODA_RETURN_IF_ERROR(wait_for_tls(count));
      continue;
    }
    const ssize_t count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (errno == EAGAIN)
      PAGODA_RETURN_IF_ERROR(wait(POLLOUT));
    else if (errno != EINTR)
      return broken("the connection broke", errno);
  }
  return ok_status();
}

Result<std::size_t> OutgoingConnection::read(std::span<char> space) {
  for (;;) {
    if (ssl_ != nullptr) {
      ERR_clear_error();
      const int count = SSL_read(ssl_.get(), space.data(), static_cast<int>(space.size()));
      if (count > 0) return static_cast<std::size_t>(count);
      if (SSL_get_error(ssl_.get(), count) == SSL_ERROR_ZERO_RETURN) return std::size_t{0};
      PAGODA_RETURN_IF_ERROR(wait_for_tls(count));
      continue;
    }
    const ssize_t count = recv(socket_, space.data(), space.size(), 0);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN)
      PAGODA_RETURN_IF_ERROR(wait(POLLIN));
    else if (errno != EINTR)
      return broken("the connection broke", errno);
  }
}

}  // namespace pagoda
