#include <algorithm>
#include <bit>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "kv_cache/eviction_order.h"

namespace pagoda {
namespace {

// Evicts the row of least worth: the cost to compute it, which is the same for all rows of a pool, times the
// probability that it is used again. The probability falls as other rows are released, as in lru; a row that
// was found often, or has a time or priority hint, falls later by a share of the cache (credit). Rows whose
// time has expired go before all others, pinned rows after all others.
class CostEviction final : public EvictionOrder {
 public:
  void set_time(TimeNs now) override {
    now_ = std::max(now_, now);
    while (!pinned_.empty() && std::get<TimeNs>(*pinned_.begin()) <= now_) {
      const BlockId row = std::get<BlockId>(*pinned_.begin());
      Entry& entry = entries_.at(index(row));
      unpin(entry, row);
      order_.erase(entry.key);
      std::get<0>(entry.key) = false;
      order_.insert(entry.key);
    }
  }

  void add(BlockId row, const CachedRow& facts) override {
    ++num_added_;
    Entry entry{.key = {false, num_added_ + static_cast<std::uint64_t>(credit(facts)), num_added_, row},
                .expires = facts.claim.expires,
                .pinned_until = facts.claim.pinned_until,
                .tenant = facts.claim.owner.tenant};
    // A tenant's pins are honoured only up to a share of the cache.
    const bool pinned =
        entry.pinned_until > now_ &&
        num_pinned_[entry.tenant] <= static_cast<std::int64_t>(entries_.size()) / kPinnedShare;
    std::get<0>(entry.key) = pinned;
    if (pinned) {
      ++num_pinned_[entry.tenant];
      pinned_.insert({entry.pinned_until, row});
    } else {
      entry.pinned_until = 0;
    }
    if (entry.expires > 0 && !pinned) expiring_.insert({entry.expires, num_added_, row});
    order_.insert(entry.key);
    entries_.emplace(index(row), entry);
    most_ = std::max(most_, entries_.size());
  }

  void remove(BlockId row) override {
    const auto it = entries_.find(index(row));
    CHECK(it != entries_.end());
    Entry& entry = it->second;
    unpin(entry, row);
    if (entry.expires > 0) expiring_.erase({entry.expires, std::get<2>(entry.key), row});
    order_.erase(entry.key);
    entries_.erase(it);
  }

  BlockId next() const override {
    CHECK(!order_.empty());
    return any_expired() ? std::get<BlockId>(*expiring_.begin()) : std::get<BlockId>(*order_.begin());
  }

  void append(std::vector<BlockId>& rows) const override {
    for (const Expiry& expiry : expiring_)
      if (std::get<0>(expiry) <= now_) rows.push_back(std::get<BlockId>(expiry));
    for (const Key& key : order_) {
      const BlockId row = std::get<BlockId>(key);
      const Entry& entry = entries_.at(index(row));
      if (std::get<0>(key) || entry.expires == 0 || entry.expires > now_) rows.push_back(row);
    }
  }

  std::int64_t credit(const CachedRow& facts) const override {
    constexpr double kPerPriority = 25;
    const double hits = std::bit_width(static_cast<std::uint64_t>(facts.num_hits + 1)) - 1;
    const double hints =
        (facts.claim.priority - CacheHint::kUsual) / kPerPriority + (facts.claim.expires > now_ ? 1 : 0);
    // Makes the result at least 0 for no hits and the lowest priority.
    constexpr double kLeast = CacheHint::kUsual / kPerPriority;
    return static_cast<std::int64_t>((hits + hints + kLeast) * kShare * static_cast<double>(most_));
  }

 private:
  static constexpr double kShare = 0.25;  // share of the cache per doubling of the hits
  static constexpr std::int64_t kPinnedShare = 4;
  // Pinned, virtual time of use, number when added, row.
  using Key = std::tuple<bool, std::uint64_t, std::uint64_t, BlockId>;
  using Expiry = std::tuple<TimeNs, std::uint64_t, BlockId>;  // with the number when added
  struct Entry {
    Key key;
    TimeNs expires = 0, pinned_until = 0;
    std::uint64_t tenant = 0;
  };
  bool any_expired() const { return !expiring_.empty() && std::get<0>(*expiring_.begin()) <= now_; }
  void unpin(Entry& entry, BlockId row) {
    if (entry.pinned_until == 0) return;
    pinned_.erase({entry.pinned_until, row});
    if (--num_pinned_.at(entry.tenant) == 0) num_pinned_.erase(entry.tenant);
    if (entry.expires > 0) expiring_.insert({entry.expires, std::get<2>(entry.key), row});
    entry.pinned_until = 0;
  }

  std::set<Key> order_;
  std::set<Expiry> expiring_;                     // rows that are not pinned
  std::set<std::tuple<TimeNs, BlockId>> pinned_;  // by the end of the pin
  std::unordered_map<std::int32_t, Entry> entries_;
  std::unordered_map<std::uint64_t, std::int64_t> num_pinned_;  // by tenant
  // Most rows at any time so far; if the credit could fall, old rows would be favoured.
  std::size_t most_ = 0;
  std::uint64_t num_added_ = 0;
  TimeNs now_ = 0;
};

}  // namespace

std::unique_ptr<EvictionOrder> make_cost_eviction() { return std::make_unique<CostEviction>(); }

}  // namespace pagoda
