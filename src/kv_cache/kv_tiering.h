#pragma once
// KvTiering: what the engine and the scheduler ask of a manager whose rows can outlive the pool in tiers
// (request/kv_tier.h). Rows that nobody uses any more are offered to the tiers; a waiting sequence whose
// prompt's beginning is there can have it brought back. Peers are asked first what they have of it. This base
// class has no tiers.
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

  // Has the rows brought that the tiers have of the prefix of `tokens`, beyond those in the pool, and holds
  // all of them until end_arrival(). `no_room`: that would leave fewer than `margin` pages available; nothing
  // changed.
  enum class Arrival : std::uint8_t { nothing, no_room, begun };
  virtual Arrival begin_arrival(SequenceId, std::span<const TokenId> /*tokens*/, const CacheUse& /*use*/,
                                std::int64_t /*margin*/) {
    return Arrival::nothing;
  }
  // Whether rows are still on their way. Those that have come are published once it is false.
  virtual bool arriving(SequenceId) const { return false; }
  // Whether all that it waited for was what peers have, and that is known now.
  virtual bool answered(SequenceId) const { return false; }
  // Lets go of its rows; what is on its way is given up.
  virtual void end_arrival(SequenceId) {}

  virtual bool has_moves() const { return false; }  // for take()
  virtual void take(TierMoves&) {}                  // moves out those decided since the last call
  virtual void on_news(const TierNews&) {}
  // Until the next call: what computing a token takes, about.
  virtual void set_compute_cost(double /*seconds_per_token*/) {}
};

}  // namespace pagoda
