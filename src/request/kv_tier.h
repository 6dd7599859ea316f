#pragma once
// KvTier: a store for rows of K/V outside the pool, keyed by content: host memory, a disk, a peer. It deals
// in keys, tokens and bytes, not in pages, sequences or the meaning of a row. A tier may refuse or drop any
// row at any time, but never returns wrong bytes: a miss is a normal answer. kv_cache/kv_tiers.h decides
// which rows to move; model_runner/tier_engine.h calls the tiers. Threads: called concurrently; every call
// except lookup() may block.
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "request/tier_moves.h"

namespace pagoda {

class KvTier {
 public:
  virtual ~KvTier() = default;

  virtual std::string_view medium() const = 0;  // its name in KV events: "CPU", "DISK"

  // Calls `f` for each row in the tier.
  virtual void each_key(const std::function<void(const TierKey&, const CacheOwner&)>& /*f*/) const {}
  // True if the tier has the row, as far as is known without I/O.
  virtual bool lookup(const TierKey& key) const = 0;

  // Writes the row into `bytes`. Returns false if the tier does not have the complete row with exactly these
  // tokens and this size; then the content of `bytes` is undefined and lookup() returns false.
  [[nodiscard]] virtual bool fetch(const TierRow& row, std::span<std::byte> bytes) = 0;
  // Stores a copy; returns false if the tier does not. Appends the keys of rows evicted for it to `gone`.
  [[nodiscard]] virtual bool store(const TierRow& row, std::span<const std::byte> bytes,
                                   std::vector<TierKey>& gone) = 0;
  // Records that the row was used again (row.use), if it is in the tier.
  virtual void touch(const TierRow& /*row*/) {}
  // Drops these rows, and erases their bytes if they would outlive the process. Returns an error if some
  // bytes could not be erased; even those rows are no longer found.
  virtual Status erase(const TierErase& what) = 0;
  // Like erase(), for all rows. The calling engine makes no other call while either runs.
  virtual void erase_all() = 0;
  // For a tier shared by several engines: each engine is notified of the rows that any engine stores, and of
  // the rows evicted for them (`there` false). Called on threads of other engines. A null listener
  // unregisters `engine`.
  using RowListener = std::function<void(const TierKey&, const CacheOwner&, bool there)>;
  virtual void listen(const void* /*engine*/, RowListener /*listener*/) {}
  // True if the rows can be used by a later process.
  virtual bool outlives_process() const { return false; }
  // Keeps those of these rows that are present until the given time (SteadyClock), on a best-effort basis.
  virtual void hold(std::span<const TierKey> /*keys*/, TimeNs /*until*/) {}

  // True if the rows are in other processes: fetch() waits for them, for a few seconds at most, and nothing
  // is stored in the tier.
  virtual bool is_remote() const { return false; }
  // Remote tiers: appends the keys of the rows that can be fetched; rows not confirmed by the deadline are
  // left out.
  virtual void ask(const TierAsk& /*ask*/, TimeNs /*deadline*/, std::vector<TierKey>& /*found*/) {}
  // Remote tiers: from now on no call waits.
  virtual void stop() {}
};

}  // namespace pagoda
