#pragma once
// PeerSecret: the secret shared by servers that exchange K/V. Connections with a secret use TLS 1.3 with a
// pre-shared key derived from it and a key exchange. Third parties can neither read nor change the traffic,
// and a recording can neither be replayed nor decrypted later. There are no certificates. Threads: any.
// Source: RFC 8446 §2.2 (external pre-shared keys), RFC 9257.
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace pagoda {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

class PeerSecret {
 public:
  static constexpr std::size_t kLeastBytes = 16;
  // White space around the text is ignored. invalid_argument: the text is too short.
  static Result<std::unique_ptr<PeerSecret>> from_text(std::string_view text);
  PeerSecret(const PeerSecret&) = delete;
  PeerSecret& operator=(const PeerSecret&) = delete;

  enum class Side { client, server };
  // Creates a session over the descriptor, which remains owned by the caller. Null if out of memory.
  std::unique_ptr<SSL, FreeSsl> session(int fd, Side side) const;

 private:
  using Key = std::array<unsigned char, 32>;
  PeerSecret() = default;
  Status make_contexts();
  static unsigned give_key(const SSL* ssl, unsigned char* key, unsigned size);

  Key key_{};
  std::unique_ptr<SSL_CTX, FreeSsl> client_, server_;
};

}  // namespace pagoda
