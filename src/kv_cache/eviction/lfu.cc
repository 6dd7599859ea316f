#include <set>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "kv_cache/eviction_order.h"

namespace pagoda {
namespace {

// Evicts the row that was found least often; ties are broken by least recent release. Source: SGLang's lfu.
class LfuEviction final : public EvictionOrder {
 public:
  void add(BlockId row, const CachedRow& facts) override {
    const Key key{facts.num_hits, ++num_added_, row};
    keys_[index(row)] = key;
    order_.insert(key);
  }
  void remove(BlockId row) override {
    const auto it = keys_.find(index(row));
    CHECK(it != keys_.end());
    order_.erase(it->second);
    keys_.erase(it);
  }
  BlockId next() const override {
    CHECK(!order_.empty());
    return std::get<BlockId>(*order_.begin());
  }
  void append(std::vector<BlockId>& rows) const override {
    for (const Key& key : order_) rows.push_back(std::get<BlockId>(key));
  }

 private:
  using Key = std::tuple<std::int64_t, std::uint64_t, BlockId>;  // hits, number when added, row
  std::set<Key> order_;
  std::unordered_map<std::int32_t, Key> keys_;  // by row
  std::uint64_t num_added_ = 0;
};

}  // namespace

std::unique_ptr<EvictionOrder> make_lfu_eviction() { return std::make_unique<LfuEviction>(); }

}  // namespace pagoda
