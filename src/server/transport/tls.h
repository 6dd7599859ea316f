#pragma once
// TLS with OpenSSL: a context for new connections, loaded from the operator's files, and the store that holds
// the current context. Only TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers, ALPN http/1.1, no
// renegotiation, no compression, no server-side session cache (clients keep tickets). Invariants: a
// connection keeps the context it began with; a failed reload changes nothing. Errors: invalid_argument that
// names the file, without OpenSSL's message about its content.
// Threads: any. Owner: the server.
#include <openssl/ssl.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace pagoda {

struct TlsFiles {
  std::string certificates;     // PEM chain, the server's certificate first; empty: no TLS
  std::string key;              // PEM; empty: in the file `certificates`
  std::string client_ca;        // PEM; authorities of accepted client certificates
  int client_certificates = 0;  // as Python's ssl.CERT_*: 0 none, 1 optional, 2 required
  bool wanted() const { return !certificates.empty(); }
  // invalid_argument if a setting would have no effect.
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
  // The server's side of a connection; null only if memory is short.
  SslSession new_session(int fd) const;

 private:
  std::unique_ptr<SSL_CTX, SslDelete> context_;
};

class TlsStore {
 public:
  Status load(TlsFiles files);  // no-op if TLS is not wanted
  Status reload();
  bool wanted() const { return files_.wanted(); }
  std::shared_ptr<const TlsContext> current() const;

 private:
  TlsFiles files_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> context_;  // guarded by mutex_
};

}  // namespace pagoda
