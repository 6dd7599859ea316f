#pragma once
// Fingerprint: the SHA-256 of everything that a bit of K/V depends on, as named texts in the order in which
// they are given. It does not depend on where a model lies. Two fingerprints are equal only if all names and
// values are. Threads: one at a time.
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
  KvDigest finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// 64 hexadecimal digits, in the order of the bytes; and back, nullopt where it is none.
std::string hex(const KvDigest& digest);
std::optional<KvDigest> digest_of_hex(std::string_view text);

}  // namespace pagoda
