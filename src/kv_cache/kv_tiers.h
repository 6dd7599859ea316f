#pragma once
// KvTiers: KvTiering on paged memory: the rows of the pool that are in transfer to or from a tier, and the
// rows that the tiers are known to have. The runner moves the bytes and answers each ticket once.
//     a published row becomes CACHED -> store: LEAVING until answered; ok: its key is known
//     a prompt begins with known keys -> fetch: ARRIVING until answered; ok: published when all have come
//     peers may have more       -> ask: the keys that they have are known until the fetches are decided
// Full tiers that are small compared with the pool keep other rows than the pool: rows unknown to any tier
// are held back in the pool, and stored just before the pool needs their place (kv_tiers_space.cc). If a
// LEAVING row is evicted or an ARRIVING one given up, the batch that may overwrite it cancels the ticket, so
// nothing waits for a tier. Rows with a known key are touched. Invariant: LEAVING and ARRIVING rows are those
// of open tickets. Threads: the engine thread.
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kv_cache/kv_inspection.h"
#include "kv_cache/kv_tiering.h"
#include "kv_cache/page_supply.h"
#include "kv_cache/prefix_cache.h"
#include "kv_cache/promises.h"

namespace pagoda {

class KvTiers final : public KvTiering {
 public:
  // Borrows all arguments, and listens to the pool from now on.
  enum class Peers : std::uint8_t { none, asked };
  KvTiers(const KvGeometry& geometry, BlockPool& pool, PageSupply& supply, PrefixIndex& index,
          PrefixCache& cache, const Promises& promises, PrefixCacheStats& stats, Peers peers);
  KvTiers(const KvTiers&) = delete;
  KvTiers& operator=(const KvTiers&) = delete;

  Arrival begin_arrival(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                        std::int64_t margin) override;
  bool arriving(SequenceId id) const override;
  bool answered(SequenceId id) const override;
  void end_arrival(SequenceId id) override;
  bool has_moves() const override { return !moves_.empty(); }
  void take(TierMoves& moves) override;
  void on_news(const TierNews& news) override;
  void set_compute_cost(double seconds_per_token) override { seconds_per_token_ = seconds_per_token; }

  // The part of `num_found` tokens found in the pool that tiers delivered for the sequence.
  std::int32_t brought(SequenceId id, std::int32_t num_found) const;
  // Forgets the rows of this owner, including those being stored. Returns their keys.
  std::unordered_set<TierKey, TierKeyHasher> erase(const CacheOwner& owner);
  // Called when the tiers are erased: nothing is known any more, and all transfers fail.
  void clear();

  // Counts the references held by arrivals, by page.
  void count_references(std::unordered_map<std::int32_t, std::int32_t>& references) const;
  void check_invariants() const;

 private:
  static constexpr std::size_t kMaxTickets = 8192;
  struct Ticket {
    enum class Kind : std::uint8_t { store, fetch, ask };  // an ask without keys is a timer
    Kind kind = Kind::store;
    TierKey key = {};
    std::optional<BlockId> row = {};       // row of a store or fetch; absent: cancelled
    std::vector<SequenceId> waiting = {};  // sequences that wait for the answer
    CacheOwner owner = {};
    bool erased = false;  // store only: the row must not become known
    std::vector<TierKey> asked = {};
  };
  struct Held {
    enum class State : std::uint8_t { in_pool, wanted, pending, came };
    BlockId row{};
    PrefixCache::Row of = {};
    State state = State::in_pool;
  };
  struct Arriving {
    std::vector<Held> rows;  // empty once all have arrived
    // Rows in flight: fetched for this sequence, or stored to make space for it.
    std::int64_t num_missing = 0;
    std::int32_t num_in_pool = 0;  // tokens found without a tier
    // State of a sequence that waits for the answer of peers, or then for space, instead of rows.
    enum class Asking : std::uint8_t { no, asked, making_space, answered };
    Asking asking = Asking::no;
    TierTicket ask{};  // ticket of the question to peers, or of the timer while making space
    std::vector<TierKey> at_peers = {};
    bool made_space = false;  // has already waited for space
  };

  void on_cached(BlockId row);
  void on_stop_leaving(BlockId row);
  void cancel(TierTicket ticket);
  bool ask(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use);
  Arrival fetch_rows(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use, std::int64_t margin,
                     const Arriving& before);
  void fetch(Held& held, SequenceId id, double patience_s);
  void know_answer(const Ticket& ticket);
  void forget(const std::vector<TierKey>& at_peers);
  void answer(const TierDone& done);
  void remember(const TierKey& key, const CacheOwner& owner, TierSet tiers);
  // Records that these tiers have lost the row; the row stays known while others have it. Returns true if no
  // tier holds the row any more.
  bool forget(const TierKey& key, TierSet tiers);
  void report(const TierKey& key, TierSet tiers, bool stored) const;
  void arrived(Arriving& arriving);
  void release(Arriving& arriving);
  void give_up(SequenceId id, Arriving& arriving);
  std::uint64_t next_use(std::int64_t credit = 0);
  TierRow tier_row(const TierKey& key, std::span<const TokenId> tokens, const CacheOwner& owner,
                   std::uint64_t use) const;
  void store(BlockId row, std::uint64_t use);
  double token_cost() const;
  TierTicket ask_for(SequenceId id, TierAsk ask);

  // In kv_tiers_space.cc.
  bool are_small() const;
  void hold_back(BlockId row);
  bool store_oldest();
  void keep_reserve();
  bool make_space(SequenceId id, std::int64_t pages, double patience_s);
  void one_has_left(SequenceId id);
  void wait_no_more(SequenceId id);
  void end_making_space(SequenceId id);

  const KvGeometry& geometry_;
  BlockPool& pool_;
  PageSupply& supply_;
  PrefixIndex& index_;
  PrefixCache& cache_;
  const Promises& promises_;
  PrefixCacheStats& stats_;
  const bool asks_;

  PrefixIndex::TierKeys known_;
  // Known keys that peers have, with the number of arrivals that asked for each.
  std::unordered_map<TierKey, int, TierKeyHasher> at_peers_;
  std::unordered_map<TierTicket, Ticket> tickets_;
  std::unordered_map<std::int32_t, TierTicket> leaving_;             // by row
  std::unordered_map<TierKey, TierTicket, TierKeyHasher> fetching_;  // not cancelled
  std::unordered_map<SequenceId, Arriving> arrivals_;
  TierMoves moves_;
  bool complement_ = false;          // the tiers are full and small, so they complement the pool
  std::vector<std::uint64_t> uses_;  // by row: last use of held-back rows
  std::uint64_t last_ticket_ = 0, last_use_ = 0;
  double seconds_per_token_ = 0;
};

}  // namespace pagoda
