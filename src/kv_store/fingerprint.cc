#include "kv_store/fingerprint.h"

#include <openssl/evp.h>

#include <cstdint>
#include <cstring>

#include "base/check.h"

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

std::string hex(const KvDigest& digest) {
  std::string out;
  for (const std::byte byte : std::as_bytes(std::span(digest))) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out.push_back(kDigits[std::to_integer<std::size_t>(byte >> 4)]);
    out.push_back(kDigits[std::to_integer<std::size_t>(byte & std::byte{15})]);
  }
  return out;
}

std::optional<KvDigest> digest_of_hex(std::string_view text) {
  KvDigest out{};
  if (text.size() != 2 * sizeof out) return std::nullopt;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  const auto bytes = std::as_writable_bytes(std::span(out));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return out;
}

}  // namespace pagoda
