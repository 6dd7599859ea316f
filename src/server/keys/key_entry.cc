#include "server/keys/key_entry.h"

#include <openssl/sha.h>

#include <span>

#include "base/hex.h"

namespace pagoda {

KeyDigest digest_of_key(std::string_view key) {
  KeyDigest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

std::string hex_of(const KeyDigest& digest) { return hex_of(std::as_bytes(std::span(digest))); }

std::optional<KeyDigest> digest_from_hex(std::string_view hex) {
  KeyDigest out;
  if (!read_hex(hex, std::as_writable_bytes(std::span(out)))) return std::nullopt;
  return out;
}

bool may_use(Role holder, Role route) {
  return route == Role::anyone || holder == Role::admin || holder == route;
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::anyone:
      return "anyone";
    case Role::user:
      return "user";
    case Role::metrics:
      return "metrics";
    case Role::admin:
      return "admin";
  }
  return "";
}

}  // namespace pagoda
