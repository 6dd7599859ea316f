#pragma once
// For tests of page mapping: the reserved address space, reconstructed from the mapping records alone.
#include <gtest/gtest.h>

#include <vector>

#include "kv_cache/slot_map.h"

namespace pagoda::testing {

class NaiveMemory {
 public:
  explicit NaiveMemory(const SlotMapConfig& config)
      : shown_(static_cast<std::size_t>(config.num_slots * config.blocks_per_slot), kNoPage) {}
  // Applies one batch. Mappings made ahead are applied as late as allowed: just before the next batch's.
  // `from` is a KvManager or a SlotMap.
  template <class From>
  void take(From& from) {
    std::vector<PageMapping> now, ahead;
    if constexpr (requires { from.take(now, ahead); })
      from.take(now, ahead);
    else
      from.take_page_mappings(now, ahead);
    apply(late_);
    apply(now);
    late_ = std::move(ahead);
    num_now += static_cast<std::int64_t>(now.size());
    num_ahead += static_cast<std::int64_t>(late_.size());
  }
  BlockId at(BlockId block) const { return shown_.at(static_cast<std::size_t>(index(block))); }
  std::int64_t regions() const {
    std::int64_t count = 1;
    for (std::size_t i = 1; i < shown_.size(); ++i) {
      const bool goes_on = shown_[i] == kNoPage
                               ? shown_[i - 1] == kNoPage
                               : shown_[i - 1] != kNoPage && index(shown_[i]) == index(shown_[i - 1]) + 1;
      count += goes_on ? 0 : 1;
    }
    return count;
  }
  std::int64_t num_now = 0, num_ahead = 0;

 private:
  void apply(const std::vector<PageMapping>& list) {
    for (const PageMapping& mapping : list) {
      ASSERT_GT(mapping.count, 0);
      if (mapping.block == kNoBlock) continue;
      for (std::int32_t i = 0; i < mapping.count; ++i)
        shown_.at(static_cast<std::size_t>(index(mapping.block) + i)) =
            mapping.page == kNoPage ? kNoPage : BlockId{index(mapping.page) + i};
    }
  }
  std::vector<BlockId> shown_;
  std::vector<PageMapping> late_;
};

}  // namespace pagoda::testing
