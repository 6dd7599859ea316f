#pragma once
// Records of the KV tiers: rows of K/V that leave the pool for longer-lived storage (host memory, a disk), or
// arrive from there or from another server. The KV manager decides the moves by ids and hashes
// (kv_cache/kv_tiers.h), a batch carries them, and the runner's TierEngine carries them out alongside the
// steps and answers with TierNews. All decisions follow from these records, so a run log contains them and a
// replay needs no tier. Plain data.
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "request/cache_owner.h"
#include "request/ids.h"

namespace pagoda {

// Identifies the content of a row: the hash chained over the model, the salt and all tokens up to the row's
// end, and the KV group. Rows with equal keys have identical bytes.
struct TierKey {
  std::array<std::uint64_t, 4> chain{};
  std::int32_t group = 0;
  bool operator==(const TierKey&) const = default;
};

struct TierKeyHasher {
  std::size_t operator()(const TierKey& key) const {
    return key.chain[0] + static_cast<std::size_t>(key.group) * 0x9e3779b97f4a7c15ull;
  }
};

// Erases the rows named in `keys`, and those rows stored for `owner` that are in a tier but unknown to the
// engine (damaged rows, rows of other models).
struct TierErase {
  std::unordered_set<TierKey, TierKeyHasher> keys;
  CacheOwner owner;
};

enum class TierTicket : std::uint64_t {};  // unique for the lifetime of an engine

// A row as seen by tiers.
struct TierRow {
  TierKey key;
  std::vector<TokenId> tokens;  // this row's tokens only; compared on a fetch, in addition to the key
  // Time of last use: larger is later, and values are unique. The end of a text is useless without its
  // beginning and gets the smaller value, so a tier can drop rows in ascending order.
  std::uint64_t use = 0;
  double compute_s = 0;  // approximate time to compute these tokens
  CacheOwner owner = {};
};

// Bytes move between a tier and the row's pages of the pool, in the row's order (pages_per_row pages). The
// row is not written while it is stored, and neither read nor written while it is fetched.
struct TierStore {
  TierTicket ticket{};
  TierRow row;
  std::vector<BlockId> pages = {};
};
struct TierFetch {
  TierTicket ticket{};
  TierRow row;
  std::vector<BlockId> pages = {};
  double patience_s = 0;  // the fetch fails if the row has not arrived after this time
};

// Asks which of these rows peers have. Rows that can be fetched are in `found` when the ticket is answered.
// Without keys it is a timer, answered after patience_s.
struct TierAsk {
  TierTicket ticket{};
  std::vector<TierKey> keys;
  CacheOwner owner = {};  // owner of these rows on this server
  double patience_s = 0;
};

struct TierMoves {
  // Processed first: afterwards the pages of these tickets may be reused. Answers to these tickets are
  // ignored.
  std::vector<TierTicket> cancels;
  std::vector<TierStore> stores;
  std::vector<TierFetch> fetches;
  std::vector<TierRow> touches;  // rows in the tiers that were used again; without tokens
  std::vector<TierAsk> asks;

  bool empty() const {
    return cancels.empty() && stores.empty() && fetches.empty() && touches.empty() && asks.empty();
  }
  void clear() {
    cancels.clear();
    stores.clear();
    fetches.clear();
    touches.clear();
    asks.clear();
  }
};

// A set of the runner's tiers, one bit each; the fastest tier is the lowest bit.
using TierSet = std::uint32_t;

struct TierDone {
  TierTicket ticket{};
  bool ok = false;    // false: not stored, or lost
  TierSet tiers = 0;  // tiers that hold the row from now on
  bool operator==(const TierDone&) const = default;
};

struct TierFound {
  TierKey key;
  CacheOwner owner;
  TierSet tiers = 0;
  bool operator==(const TierFound&) const = default;
};

struct TierGone {
  TierKey key;
  TierSet tiers = 0;  // tiers that no longer hold the row
  bool operator==(const TierGone&) const = default;
};

// Everything that happened since the last answer, applied in this order.
struct TierNews {
  // Rows that a tier contained when opened, stores, was asked for, or got from another engine.
  std::vector<TierFound> found;
  std::vector<TierDone> done;
  std::vector<TierGone> gone;

  bool empty() const { return found.empty() && done.empty() && gone.empty(); }
};

}  // namespace pagoda
