#pragma once
// XXH64: a fast 64-bit checksum that detects damaged bytes. No defence against an adversary who chooses the
// bytes. Source: the xxHash specification (doc/xxhash_spec.md of the project), tested against the xxhash
// package.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pagoda {

std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
inline std::uint64_t xxh64(std::string_view text, std::uint64_t seed = 0) {
  return xxh64(std::as_bytes(std::span(text.data(), text.size())), seed);
}

}  // namespace pagoda
