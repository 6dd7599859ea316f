#pragma once
// TLS by OpenSSL: the files that an operator names, as a context for new connections, and the store that
// holds the one in use. TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers only, ALPN http/1.1,
// no renegotiation, no compression, no server-side session cache (tickets are the client's to keep).
// Invariants: a connection keeps the context it began with; a reload that fails changes nothing.
// Errors: invalid_argument that names the file, without OpenSSL's words about its content.
// Threads: any. Owner: the server.
#include <openssl/ssl.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace pagoda {

struct TlsFiles {
  std::string certificates;     // PEM chain, its own first; empty: no TLS
  std::string key;              // PEM; empty: in the same file
  std::string client_ca;        // PEM; whose clients' certificates are accepted
  int client_certificates = 0;  // as Python's ssl.CERT_*: 0 none, 1 optional, 2 required
  bool wanted() const { return !certificates.empty(); }
  // invalid_argument: files that would have no effect, so that what was asked for would not be there.
  Status check() const;
};

struct SslDelete {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslSession = std::unique_ptr<SSL, SslDelete>;

class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> load(const TlsFiles& files);
  // The server's side of a connection; null only where memory is short.
  SslSession new_session(int fd) const;

 private:
  std::unique_ptr<SSL_CTX, SslDelete> context_;
};

class TlsStore {
 public:
  Status load(TlsFiles files);  // nothing where none are wanted
  Status reload();
  bool wanted() const { return files_.wanted(); }
  std::shared_ptr<const TlsContext> current() const;

 private:
  TlsFiles files_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> context_;  // guarded by mutex_
};

}  // namespace pagoda
