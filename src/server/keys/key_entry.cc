#include "server/keys/key_entry.h"

#include <openssl/sha.h>

namespace pagoda {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

KeyDigest digest_of_key(std::string_view key) {
  KeyDigest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

std::string hex_of(const KeyDigest& digest) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : digest) out.append({kHex[byte >> 4], kHex[byte & 15]});
  return out;
}

std::optional<KeyDigest> digest_from_hex(std::string_view hex) {
  KeyDigest out;
  if (hex.size() != 2 * out.size()) return std::nullopt;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<unsigned char>(high * 16 + low);
  }
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
