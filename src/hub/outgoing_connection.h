#pragma once
// OutgoingConnection: one outgoing TCP or TLS connection with a deadline for every wait. Not HTTP
// (http_call.h), not a pool. TLS verifies the server's certificate against the system's authorities
// (OpenSSL's SSL_CERT_FILE and SSL_CERT_DIR), and its name against the host; verification cannot be turned
// off. Errors: unavailable if a retry may help (refused, broken, timed out); invalid_argument if it cannot
// (an invalid certificate). Threads: one. Source: OpenSSL's manual, SSL_get_error(3).
#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "hub/url.h"

namespace pagoda {

class OutgoingConnection {
 public:
  // `timeout_s`: the maximum time that connecting, or any single read or write, may wait for the peer.
  static Result<std::unique_ptr<OutgoingConnection>> open(const Url& url, int timeout_s);
  ~OutgoingConnection();
  OutgoingConnection(const OutgoingConnection&) = delete;
  OutgoingConnection& operator=(const OutgoingConnection&) = delete;

  Status write(std::string_view bytes);
  // Returns the number of bytes read into `space`; 0 if the peer has closed the connection.
  Result<std::size_t> read(std::span<char> space);

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };

  OutgoingConnection(int socket, int timeout_s) : socket_(socket), timeout_s_(timeout_s) {}
  Status start_tls(const std::string& host);
  // Waits until the socket is ready for reading or writing.
  Status wait(short events) const;
  // After an SSL call that returned `code`: waits if the call must be repeated.
  Status wait_for_tls(int code);

  int socket_ = -1;
  int timeout_s_ = 0;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace pagoda
