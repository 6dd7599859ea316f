#include "kv_peer/peer_secret.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr const char* kIdentity = "pagoda-kv-peer";

std::string_view without_space_around(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

Result<std::unique_ptr<PeerSecret>> PeerSecret::from_text(std::string_view text) {
  text = without_space_around(text);
  if (text.size() < kLeastBytes)
    return invalid_argument(concat("the secret must have at least ", kLeastBytes,
                                   " characters; `openssl rand -hex 32` makes one"));
  std::unique_ptr<PeerSecret> secret(new PeerSecret());
  const std::string named = concat("pagoda kv peer key 1\n", text);
  unsigned length = 0;
  if (EVP_Digest(named.data(), named.size(), secret->key_.data(), &length, EVP_sha256(), nullptr) != 1 ||
      length != secret->key_.size())
    return internal_error("OpenSSL cannot compute a SHA-256");
  PAGODA_RETURN_IF_ERROR(secret->make_contexts());
  return secret;
}

unsigned PeerSecret::give_key(const SSL* ssl, unsigned char* key, unsigned size) {
  const auto* const secret = static_cast<const PeerSecret*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  if (secret == nullptr || size < secret->key_.size()) return 0;
  std::memcpy(key, secret->key_.data(), secret->key_.size());
  return static_cast<unsigned>(secret->key_.size());
}

Status PeerSecret::make_contexts() {
  // OpenSSL writes to sockets with write(), so writing to a closed connection would raise SIGPIPE and end the
  // process.
  (void)std::signal(SIGPIPE, SIG_IGN);
  client_.reset(SSL_CTX_new(TLS_client_method()));
  server_.reset(SSL_CTX_new(TLS_server_method()));
  for (SSL_CTX* const context : {client_.get(), server_.get()}) {
    if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") != 1 ||
        SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1)
      return internal_error("OpenSSL cannot set up TLS 1.3");
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_app_data(context, this);
  }
  SSL_CTX_set_num_tickets(server_.get(), 0);
  // Without a certificate the server can only accept the pre-shared key; the client would reject a
  // certificate, too.
  SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_psk_client_callback(client_.get(),
                                  [](SSL* ssl, const char*, char* identity, unsigned size, unsigned char* key,
                                     unsigned key_size) -> unsigned {
                                    if (std::strlen(kIdentity) >= size) return 0;
                                    std::memcpy(identity, kIdentity, std::strlen(kIdentity) + 1);
                                    return give_key(ssl, key, key_size);
                                  });
  SSL_CTX_set_psk_server_callback(
      server_.get(), [](SSL* ssl, const char* identity, unsigned char* key, unsigned key_size) -> unsigned {
        return identity != nullptr && std::strcmp(identity, kIdentity) == 0 ? give_key(ssl, key, key_size)
                                                                            : 0;
      });
  return ok_status();
}

std::unique_ptr<SSL, FreeSsl> PeerSecret::session(int fd, Side side) const {
  ERR_clear_error();
  std::unique_ptr<SSL, FreeSsl> ssl(SSL_new(side == Side::client ? client_.get() : server_.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd) != 1) return nullptr;
  if (side == Side::client)
    SSL_set_connect_state(ssl.get());
  else
    SSL_set_accept_state(ssl.get());
  return ssl;
}

}  // namespace pagoda
