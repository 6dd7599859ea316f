#pragma once
// SimulatedTiers: a host tier whose transfers take time. Rows move over a link of a given rate, sequentially
// in each direction. The least recently used rows are evicted when the tier is full. Threads: none; owned by
// the simulation.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "request/tier_moves.h"

namespace pagoda {

struct SimulatedTierOptions {
  std::int64_t num_blocks = 0;  // capacity, in pages of the pool's size
  double block_bytes = 0;
  double bytes_per_s = 1;  // in each direction
};

class SimulatedTiers {
 public:
  explicit SimulatedTiers(const SimulatedTierOptions& options) : options_(options) {}

  void submit(const TierMoves& moves, TimeNs now);
  bool pending() const { return !fetches_.empty() || !stores_.empty() || !timers_.empty() || !news_.empty(); }
  // Returns when the next move ends; nullopt if there is none.
  std::optional<TimeNs> next_done() const;
  TierNews take_news(TimeNs now);
  void erase(const TierErase& what);
  void erase_all();

 private:
  struct Row {
    std::int64_t num_blocks = 0;
    std::uint64_t use = 0;
  };
  struct Move {
    TierTicket ticket{};
    TierKey key;
    std::uint64_t use = 0;
    std::int64_t num_blocks = 0;
    TimeNs done = 0;
    bool late = false;
  };
  Move& queue(std::deque<Move>& moves, TimeNs& free_at, TierTicket ticket, const TierRow& row,
              std::size_t num_pages, TimeNs now);
  static TimeNs latest(TimeNs now, double patience_s);
  void store(const Move& move);

  const SimulatedTierOptions options_;
  std::unordered_map<TierKey, Row, TierKeyHasher> rows_;
  std::map<std::uint64_t, TierKey> by_use_;
  std::int64_t num_used_ = 0;  // in blocks
  std::deque<Move> fetches_, stores_, timers_;
  TimeNs in_free_ = 0, out_free_ = 0;  // when the link becomes free
  TierNews news_;
};

}  // namespace pagoda
