#pragma once
// Records of the KV tiers: rows of K/V that leave the pool for a place where they are kept longer (host
// memory, a disk), or arrive from there or from another server. The KV manager decides them by ids and hashes
// (kv_cache/kv_tiers.h), a batch carries them, and the runner's TierEngine carries them out beside the steps
// and answers with TierNews. All decisions follow from these records, so a run's log holds them and a replay
// needs no tier. Plain data.
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "request/cache_owner.h"
#include "request/ids.h"

namespace pagoda {

// The name of a row's content: the hash chained over the model, the salt and all tokens up to the row's end,
// and the KV group. Rows of the same key have the same bytes.
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

// An order to erase these rows, and of rows that tiers have and the engine does not know (damaged ones, those
// of other models) the ones that were stored for this owner.
struct TierErase {
  std::unordered_set<TierKey, TierKeyHasher> keys;
  CacheOwner owner;
};

enum class TierTicket : std::uint64_t {};  // unique in an engine's life

// A row as tiers see it.
struct TierRow {
  TierKey key;
  std::vector<TokenId> tokens;  // this row's alone: compared on a fetch, beside the key
  // When it was last used: larger is later, and no two records have the same. The end of a text is of no use
  // without its beginning and comes first, so a tier drops rows in this order.
  std::uint64_t use = 0;
  double compute_s = 0;  // about what computing these tokens takes
  CacheOwner owner = {};
};

// Bytes move between a tier and pages of the pool, pages_per_row of them in the row's order. The row is not
// written while it leaves, and neither read nor written while it arrives.
struct TierStore {
  TierTicket ticket{};
  TierRow row;
  std::vector<BlockId> pages = {};
};
struct TierFetch {
  TierTicket ticket{};
  TierRow row;
  std::vector<BlockId> pages = {};
  double patience_s = 0;  // lost if it has not arrived by then
};

// Which of these rows do peers have? Those that can be fetched are `found` by the time that the ticket is
// answered. Without keys it is a timer, answered when its patience is over.
struct TierAsk {
  TierTicket ticket{};
  std::vector<TierKey> keys;
  CacheOwner owner = {};  // whose those rows are here
  double patience_s = 0;
};

struct TierMoves {
  // First: from here on the pages of these tickets may hold something else. Their answers are of no interest.
  std::vector<TierTicket> cancels;
  std::vector<TierStore> stores;
  std::vector<TierFetch> fetches;
  std::vector<TierRow> touches;  // rows in the tiers that are used again; without tokens
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

// Some of the runner's tiers, a bit for each: the fastest is the lowest.
using TierSet = std::uint32_t;

struct TierDone {
  TierTicket ticket{};
  bool ok = false;    // false: not kept, or lost
  TierSet tiers = 0;  // that keep the row from now on
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
  TierSet tiers = 0;  // that have the row no more
  bool operator==(const TierGone&) const = default;
};

// Everything that has happened since the last answer, in this order.
struct TierNews {
  // Rows that a tier was opened with, keeps, was asked for, or has from another engine.
  std::vector<TierFound> found;
  std::vector<TierDone> done;
  std::vector<TierGone> gone;

  bool empty() const { return found.empty() && done.empty() && gone.empty(); }
};

}  // namespace pagoda
