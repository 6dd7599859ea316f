#pragma once
// Names of rows of K/V that outlive a process. A row is the K/V of a few tokens in one KV group; its key says
// everything that its bits depend on. Equal keys, equal bytes.
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
  KvDigest fingerprint{};  // the model, and how it is computed (fingerprint.h)
  KvDigest hash{};         // chained over the salt and all tokens up to the row's end
  std::int32_t group = 0;  // KV group
  bool operator==(const KvKey&) const = default;
};

struct KvKeyHasher {
  std::size_t operator()(const KvKey& key) const {
    return key.hash[0] ^ key.fingerprint[0] ^ static_cast<std::size_t>(key.group);
  }
};

// Which rows are meant, by their keys and their owners.
using KvRowFilter = std::function<bool(const KvKey&, const CacheOwner&)>;

// A row to be kept. The views stay the caller's.
struct KvRow {
  KvKey key;
  std::span<const TokenId> tokens;   // the row's own; compared on every hit
  std::span<const std::byte> bytes;  // K and V, in the layout that the fingerprint names
  std::uint32_t cost_ms = 0;         // that computing it took: its worth
  CacheOwner owner = {};             // whose it was when it was stored; no part of its name
  std::uint64_t use = 0;             // when it was used last: larger is later; 0: now
};

}  // namespace pagoda
