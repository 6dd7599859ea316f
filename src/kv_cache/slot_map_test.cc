#include "kv_cache/slot_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "kv_cache/slots_test_support.h"

namespace pagoda {
namespace {

// Goal: whatever the order of taking, growing, shrinking and leaving slots, those who own pages find them at
// the front of their slot once the records of the step have been carried out, and the system has no more
// regions than it allows. Method: a naive address space that knows the records alone, and the pages that each
// owner was given.
void compare_slots(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::int32_t n) {
    return static_cast<std::int32_t>(rng() % static_cast<std::uint64_t>(n));
  };
  const SlotMapConfig config{.num_slots = 1 + below(6),
                             .blocks_per_slot = 12,
                             .max_regions = below(3) == 0 ? 20 + below(20) : 0,
                             .deferred_reclaim = below(3) != 0,
                             .map_ahead = below(3) != 0,
                             .num_eager_blocks = below(3)};
  const std::int32_t num_pages = 1 + below(40);
  BlockPool pool(num_pages);
  SlotMap map(config, pool);
  testing::NaiveMemory memory(config);
  std::map<std::int32_t, std::vector<BlockId>> owners;  // by slot
  std::int64_t owned = 0;
  // There is room for them.
  const auto add_pages = [&](std::int32_t slot, std::int32_t count) {
    std::vector<BlockId>& pages = owners[slot];
    const std::size_t before = pages.size();
    for (std::int32_t i = 0; i < count; ++i) {
      const BlockId previous = pages.empty() ? kNoPage : pages.back();
      const auto page = map.allocate(slot, static_cast<std::int32_t>(pages.size()), previous);
      ASSERT_TRUE(page.has_value());
      pages.push_back(*page);
    }
    owned += count;
    map.show(slot, static_cast<std::int32_t>(before), std::span(pages).subspan(before));
  };
  const auto drop_pages = [&](std::vector<BlockId>& pages, std::size_t keep) {
    for (; pages.size() > keep; pages.pop_back(), --owned) pool.release_one(pages.back());
  };
  const auto any = [&] { return std::next(owners.begin(), below(static_cast<std::int32_t>(owners.size()))); };
  for (int step = 0; step < 400; ++step) {
    switch (below(5)) {
      case 0: {
        const std::int32_t count = 1 + below(config.blocks_per_slot);
        if (count > pool.num_free() || !map.make_space(count)) break;
        const auto slot = map.acquire({}, count);
        ASSERT_EQ(slot.has_value(), std::ssize(owners) < config.num_slots);
        if (!slot) break;
        ASSERT_FALSE(owners.contains(*slot)) << "given out twice";
        add_pages(*slot, count);
        map.show_eagerly(*slot, count);
        break;
      }
      case 1: {
        if (owners.empty() || pool.num_free() == 0) break;
        const auto owner = any();
        const auto end = static_cast<std::int32_t>(owner->second.size()) + 1;
        if (end > config.blocks_per_slot || !map.make_space(1)) break;
        add_pages(owner->first, 1);
        map.show_ahead(owner->first, end);
        break;
      }
      case 2: {
        if (owners.empty()) break;
        const auto owner = any();
        const std::int32_t keep = 1 + below(static_cast<std::int32_t>(owner->second.size()));
        drop_pages(owner->second, static_cast<std::size_t>(keep));
        map.shrink(owner->first, keep);
        break;
      }
      case 3: {
        if (owners.empty()) break;
        const auto owner = any();
        drop_pages(owner->second, 0);
        map.release(owner->first);
        owners.erase(owner);
        break;
      }
      case 4: {  // a step runs
        memory.take(map);
        for (const auto& [slot, pages] : owners) {
          for (std::size_t i = 0; i < pages.size(); ++i)
            ASSERT_EQ(memory.at(map.block_id(slot, static_cast<std::int32_t>(i))), pages[i]);
        }
        if (config.max_regions > 0) ASSERT_LE(memory.regions(), config.max_regions);
        break;
      }
    }
    map.check_invariants();
    pool.check_invariants();
    ASSERT_EQ(pool.num_free(), num_pages - owned);
    ASSERT_EQ(map.num_idle(), config.num_slots - std::ssize(owners));
  }
}

TEST(SlotMapProperty, AnOwnerFindsItsPagesThroughTheRecordsAlone) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) compare_slots(seed);
}

}  // namespace
}  // namespace pagoda
