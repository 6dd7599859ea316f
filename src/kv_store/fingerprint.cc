#include "kv_store/fingerprint.h"

#include <openssl/evp.h>

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/hex.h"

namespace pagoda {

struct Fingerprint::Context {
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(digest); }
  void add(const void* data, std::size_t bytes) { CHECK(EVP_DigestUpdate(digest, data, bytes) == 1); }
  void add_size(std::uint64_t size) { add(&size, sizeof size); }
};

Fingerprint::Fingerprint() : context_(std::make_unique<Context>()) {
  CHECK(context_->digest != nullptr && EVP_DigestInit_ex(context_->digest, EVP_sha256(), nullptr) == 1);
}
Fingerprint::~Fingerprint() = default;

void Fingerprint::add(std::string_view name, std::span<const std::byte> value) {
  context_->add_size(name.size());
  context_->add(name.data(), name.size());
  context_->add_size(value.size());
  context_->add(value.data(), value.size());
}

void Fingerprint::add(std::string_view name, std::string_view value) {
  add(name, std::as_bytes(std::span(value.data(), value.size())));
}

KvDigest Fingerprint::finish() {
  KvDigest out{};
  unsigned length = 0;
  CHECK(EVP_DigestFinal_ex(context_->digest, reinterpret_cast<unsigned char*>(out.data()), &length) == 1);
  CHECK(length == sizeof out);
  return out;
}

std::string hex(const KvDigest& digest) { return hex_of(std::as_bytes(std::span(digest))); }

std::optional<KvDigest> digest_of_hex(std::string_view text) {
  KvDigest out{};
  if (!read_hex(text, std::as_writable_bytes(std::span(out))) || hex(out) != text) return std::nullopt;
  return out;
}

}  // namespace pagoda
