#include "server/transport/tls.h"

#include <openssl/err.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr const char* kCiphers12 =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr const char* kCiphers13 =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr long kMaxClientChain = 32 << 10;  // bytes of certificates that a client may send

// Rejects clients whose ALPN does not offer http/1.1.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned int size, void*) {
  constexpr std::string_view kHttp = "http/1.1";
  for (unsigned int at = 0; at < size; at += offered[at] + 1u) {
    const unsigned int length = offered[at];
    if (length > size - at - 1) break;
    if (std::string_view(reinterpret_cast<const char*>(offered + at + 1), length) != kHttp) continue;
    *out = offered + at + 1;
    *out_size = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Refuses keys with a passphrase instead of prompting on a terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

Status refuse(const char* flag, const std::string& file, const char* problem) {
  ERR_clear_error();
  if (access(file.c_str(), R_OK) != 0) problem = std::strerror(errno);
  return invalid_argument(concat(flag, " ", file, ": ", problem));
}

}  // namespace

Status TlsFiles::check() const {
  const bool asks = client_certificates != 0;
  if (!wanted() && (!key.empty() || !client_ca.empty() || asks))
    return invalid_argument(
        concat(!key.empty()         ? "--ssl-keyfile"
               : !client_ca.empty() ? "--ssl-ca-certs"
                                    : "--ssl-cert-reqs",
               " needs --ssl-certfile: without a certificate the server would use plain HTTP"));
  if (asks && client_ca.empty())
    return invalid_argument(
        "--ssl-cert-reqs needs --ssl-ca-certs, the authorities that sign client certificates");
  if (!asks && !client_ca.empty())
    return invalid_argument(
        "--ssl-ca-certs needs --ssl-cert-reqs 1 or 2: without it client certificates are not requested");
  return ok_status();
}

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsFiles& files) {
  PAGODA_RETURN_IF_ERROR(files.check());
  // OpenSSL uses write() on the socket, so SIGPIPE from a client that has left would end the program.
  (void)std::signal(SIGPIPE, SIG_IGN);
  auto made = std::make_shared<TlsContext>();
  made->context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = made->context_.get();
  if (context == nullptr) return internal_error("no memory for TLS");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context, kMaxClientChain);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  constexpr unsigned char kSessions[] = "pagoda";
  if (SSL_CTX_set_cipher_list(context, kCiphers12) != 1 ||
      SSL_CTX_set_ciphersuites(context, kCiphers13) != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519:P-256:P-384") != 1 ||
      SSL_CTX_set_session_id_context(context, kSessions, sizeof kSessions - 1) != 1)
    return internal_error("OpenSSL does not support the server's TLS ciphers");
  if (SSL_CTX_use_certificate_chain_file(context, files.certificates.c_str()) != 1)
    return refuse("--ssl-certfile", files.certificates, "the file has no valid PEM certificate");
  const std::string& key = files.key.empty() ? files.certificates : files.key;
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return refuse("--ssl-keyfile", key, "the file has no valid PEM private key for the certificate");
  if (SSL_CTX_check_private_key(context) != 1)
    return refuse("--ssl-keyfile", key, "the key belongs to another certificate");
  if (files.client_certificates == 0) return std::shared_ptr<const TlsContext>(std::move(made));
  if (SSL_CTX_load_verify_locations(context, files.client_ca.c_str(), nullptr) != 1)
    return refuse("--ssl-ca-certs", files.client_ca, "the file has no valid PEM certificates");
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(files.client_ca.c_str()));
  const int required = files.client_certificates == 2 ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | required, nullptr);
  return std::shared_ptr<const TlsContext>(std::move(made));
}

SslSession TlsContext::new_session(int fd) const {
  SslSession session(SSL_new(context_.get()));
  if (session == nullptr || SSL_set_fd(session.get(), fd) != 1) return nullptr;
  SSL_set_accept_state(session.get());
  return session;
}

Status TlsStore::load(TlsFiles files) {
  PAGODA_RETURN_IF_ERROR(files.check());
  files_ = std::move(files);
  return reload();
}

Status TlsStore::reload() {
  if (!wanted()) return ok_status();
  Result<std::shared_ptr<const TlsContext>> made = TlsContext::load(files_);
  if (!made) return made.error();
  std::lock_guard lock(mutex_);
  context_ = *std::move(made);
  return ok_status();
}

std::shared_ptr<const TlsContext> TlsStore::current() const {
  std::lock_guard lock(mutex_);
  return context_;
}

}  // namespace pagoda
