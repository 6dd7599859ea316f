#pragma once
// Keys of K/V rows that outlive a process. A row is the K/V of a few tokens in one KV group. Its key covers
// everything that determines its bits: rows with equal keys have equal bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "request/cache_owner.h"
#include "request/ids.h"

namespace pagoda {

using KvDigest = std::array<std::uint64_t, 4>;  // a SHA-256

struct KvKey {
  KvDigest fingerprint{};  // the model and how it is computed (fingerprint.h)
  KvDigest hash{};         // chained over the salt and all tokens up to the end of the row
  std::int32_t group = 0;  // KV group
  bool operator==(const KvKey&) const = default;
};

struct KvKeyHasher {
  std::size_t operator()(const KvKey& key) const {
    return key.hash[0] ^ key.fingerprint[0] ^ static_cast<std::size_t>(key.group);
  }
};

// Selects rows by key and owner.
using KvRowFilter = std::function<bool(const KvKey&, const CacheOwner&)>;

// A row to store. The spans are borrowed from the caller.
struct KvRow {
  KvKey key;
  std::span<const TokenId> tokens;   // the row's own tokens; compared on every hit
  std::span<const std::byte> bytes;  // K and V, in the layout that the fingerprint names
  std::uint32_t cost_ms = 0;         // time it took to compute the row, a measure of its value
  CacheOwner owner = {};             // owner at the time of storing; not part of the key
  std::uint64_t use = 0;             // last use: larger is later; 0 means now
};

}  // namespace pagoda
