#pragma once
// PeerSecret: what servers that share K/V have in common. A connection with one is TLS 1.3 whose only
// credential is a key made of it, with a key exchange: nobody else reads or changes what goes over it, and
// what was recorded can be neither replayed nor read later. There are no certificates. Threads: any. Source:
// RFC 8446 §2.2 (external pre-shared keys), RFC 9257.
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
  // The text without white space around it. invalid_argument: it is too short to be one.
  static Result<std::unique_ptr<PeerSecret>> from_text(std::string_view text);
  PeerSecret(const PeerSecret&) = delete;
  PeerSecret& operator=(const PeerSecret&) = delete;

  enum class Side { client, server };
  // A session over the descriptor, which stays the caller's. Null: no memory.
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
