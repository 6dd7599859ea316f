#pragma once
// KvTiering: the interface of a manager whose rows can outlive the pool in tiers (request/kv_tier.h), for the
// engine and the scheduler. Rows without users are offered to the tiers; a waiting sequence can have the part
// of its prompt that is there fetched. Peers are first asked which rows they have. This base class has no
// tiers.
//
//     begin_arrival -> take (into a batch) -> [ on_news ]* -> !arriving() -> end_arrival -> add_sequence
//     finds it; or, if answered(): -> begin_arrival, once more
//
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <span>

#include "kv_cache/cache_use.h"
#include "request/ids.h"
#include "request/tier_moves.h"

namespace pagoda {

class KvTiering {
 public:
  virtual ~KvTiering() = default;

  // Starts fetching the rows of the prefix of `tokens` that are in the tiers but not in the pool, and holds
  // all of its rows until end_arrival(). `no_room`: fewer than `margin` pages would remain available; nothing
  // changed.
  enum class Arrival : std::uint8_t { nothing, no_room, begun };
  virtual Arrival begin_arrival(SequenceId, std::span<const TokenId> /*tokens*/, const CacheUse& /*use*/,
                                std::int64_t /*margin*/) {
    return Arrival::nothing;
  }
  // True while rows are still in flight. Afterwards the rows that have arrived are published.
  virtual bool arriving(SequenceId) const { return false; }
  // True if the sequence waited only for the peers' answer, which is known now.
  virtual bool answered(SequenceId) const { return false; }
  // Releases the sequence's rows and cancels those in flight.
  virtual void end_arrival(SequenceId) {}

  virtual bool has_moves() const { return false; }  // take() has something to move out
  virtual void take(TierMoves&) {}                  // moves out the moves decided since the last call
  virtual void on_news(const TierNews&) {}
  // Sets the approximate time to compute a token, until the next call.
  virtual void set_compute_cost(double /*seconds_per_token*/) {}
};

}  // namespace pagoda
