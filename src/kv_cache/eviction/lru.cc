#include "base/check.h"
#include "kv_cache/eviction_order.h"

namespace pagoda {
namespace {

// Evicts the least recently released row; a linked list through the rows, without an allocation per call.
class LruEviction final : public EvictionOrder {
 public:
  void add(BlockId row, const CachedRow&) override {
    if (at(row) >= links_.size()) links_.resize(at(row) + 1);
    links_[at(row)] = {.older = newest_, .newer = kNone};
    (newest_ == kNone ? oldest_ : links_[static_cast<std::size_t>(newest_)].newer) = index(row);
    newest_ = index(row);
  }
  void remove(BlockId row) override {
    const Link link = links_[at(row)];
    (link.older == kNone ? oldest_ : links_[static_cast<std::size_t>(link.older)].newer) = link.newer;
    (link.newer == kNone ? newest_ : links_[static_cast<std::size_t>(link.newer)].older) = link.older;
  }
  BlockId next() const override {
    CHECK(oldest_ != kNone);
    return BlockId{oldest_};
  }
  void append(std::vector<BlockId>& rows) const override {
    for (std::int32_t row = oldest_; row != kNone; row = links_[static_cast<std::size_t>(row)].newer)
      rows.push_back(BlockId{row});
  }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Link {
    std::int32_t older = kNone, newer = kNone;
  };
  static std::size_t at(BlockId row) { return static_cast<std::size_t>(index(row)); }

  std::vector<Link> links_;  // by row
  std::int32_t oldest_ = kNone, newest_ = kNone;
};

}  // namespace

std::unique_ptr<EvictionOrder> make_lru_eviction() { return std::make_unique<LruEviction>(); }

}  // namespace pagoda
