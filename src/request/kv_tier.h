#pragma once
// KvTier: a place where rows of K/V are kept beside the pool, under the name of their content: host memory, a
// disk, a peer. It knows keys, tokens and bytes; it does not know pages, sequences or what a row means. A
// tier may refuse or forget any row at any time, but never gives wrong bytes: "not there" is a normal answer.
// Which rows are worth moving is decided by kv_cache/kv_tiers.h; model_runner/tier_engine.h calls tiers.
// Threads: several at once; a call may block, but for lookup().
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

  virtual std::string_view medium() const = 0;  // as KV events name it: "CPU", "DISK"

  // Calls f with each row that it has.
  virtual void each_key(const std::function<void(const TierKey&, const CacheOwner&)>& /*f*/) const {}
  // Whether it has the row, by what it knows without I/O.
  virtual bool lookup(const TierKey& key) const = 0;

  // Writes the row into `bytes`. False: it does not have the row whole, with these tokens and so many bytes;
  // `bytes` may hold anything then, and lookup() says no.
  [[nodiscard]] virtual bool fetch(const TierRow& row, std::span<std::byte> bytes) = 0;
  // Keeps a copy. False: it does not. Appends the keys of rows that it has given up for it to `gone`.
  [[nodiscard]] virtual bool store(const TierRow& row, std::span<const std::byte> bytes,
                                   std::vector<TierKey>& gone) = 0;
  // The row, if it is here, was used again (row.use).
  virtual void touch(const TierRow& /*row*/) {}
  // Forgets these rows, and erases their bytes where these would outlive the process. An error: some of them
  // could not be erased, though none is found any more.
  virtual Status erase(const TierErase& what) = 0;
  // The same for all rows. The engine that asks for either asks nothing else meanwhile.
  virtual void erase_all() = 0;
  // For a tier that several engines share: each hears of the rows that any of them stores, and of those that
  // go for them (there: false). From threads of other engines; null: `engine` hears no more.
  using RowListener = std::function<void(const TierKey&, const CacheOwner&, bool there)>;
  virtual void listen(const void* /*engine*/, RowListener /*listener*/) {}
  // Whether its rows are of use to the next process.
  virtual bool outlives_process() const { return false; }
  // Keeps those of these rows that it has until then (SteadyClock), as far as it can.
  virtual void hold(std::span<const TierKey> /*keys*/, TimeNs /*until*/) {}

  // Whether its rows are in other processes: fetch() waits for them, for a few seconds at most, and nothing
  // is stored there.
  virtual bool is_remote() const { return false; }
  // Remote tiers: appends the keys of the rows that can be fetched; what is not known by then is left out.
  virtual void ask(const TierAsk& /*ask*/, TimeNs /*deadline*/, std::vector<TierKey>& /*found*/) {}
  // Remote tiers: from here on nothing waits.
  virtual void stop() {}
};

}  // namespace pagoda
