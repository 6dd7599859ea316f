#pragma once
// Fingerprint: a SHA-256 of everything that determines the bits of K/V, fed as (name, value) pairs in a fixed
// order. It does not depend on the path of the model. Two fingerprints are equal only if all names and values
// are equal. Threads: one at a time.
// Source: FIPS 180-4 (OpenSSL computes it).
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kv_store/kv_key.h"

namespace pagoda {

class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;

  void add(std::string_view name, std::string_view value);
  void add(std::string_view name, std::span<const std::byte> value);
  KvDigest finish();  // call only once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// hex() gives 64 hexadecimal digits in byte order. digest_of_hex() is its inverse; nullopt if `text` is not a
// digest.
std::string hex(const KvDigest& digest);
std::optional<KvDigest> digest_of_hex(std::string_view text);

}  // namespace pagoda
