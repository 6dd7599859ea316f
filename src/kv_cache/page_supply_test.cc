#include "kv_cache/page_supply.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "request/ids.h"

namespace pagoda {
namespace {

TEST(PageSupply, AfterARefusalCachedPagesAreTakenInsteadForAWhile) {
  BlockPool pool(2);
  int num_asks = 0;
  PageSupply supply(pool, 10, [&](std::int64_t) {
    ++num_asks;
    return false;
  });
  for (const std::uint64_t word : {1, 2}) {
    const BlockId block = *pool.allocate_one();
    pool.publish(block, BlockHash{{word}});
    pool.release_one(block);
  }
  EXPECT_EQ(supply.num_free(), 10);
  EXPECT_TRUE(supply.make_available(1)) << "a cached page can be evicted";
  EXPECT_EQ(num_asks, 2) << "for a batch, then for what lacks";
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(supply.make_available(1));
  EXPECT_EQ(num_asks, 2);
  EXPECT_TRUE(supply.make_available(1));
  EXPECT_EQ(num_asks, 4);
  EXPECT_FALSE(supply.make_available(3)) << "the pool cannot have so many";
  EXPECT_EQ(num_asks, 6) << "asked at once, since there is no other way";
}

// Goal: whatever is granted, pages come to exist only then, in the numbers asked for, and the answer is
// right. Method: counts of pages that exist, are free and are cached, kept beside.
TEST(PageSupplyProperty, AgreesWithCounts) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 rng(seed);
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n));
    };
    const std::int64_t all = 1 + below(300);
    std::int64_t created = below(all + 1), in_use = 0;
    BlockPool pool(static_cast<std::int32_t>(created));
    PageSupply supply(pool, all, [&](std::int64_t count) {
      EXPECT_GT(count, 0);
      EXPECT_LE(created + count, all);
      if (below(3) == 0) return false;
      created += count;
      return true;
    });
    std::vector<BlockId> held;
    std::uint64_t next_hash = 1;
    for (int step = 0; step < 200; ++step) {
      if (below(3) == 0 && !held.empty()) {
        const BlockId block = held.back();
        held.pop_back();
        if (below(2) == 0) pool.publish(block, BlockHash{{next_hash++}});
        pool.release_one(block);
        --in_use;
      } else {
        const std::int64_t wanted = below(40), fresh = pool.num_free() - pool.num_cached();
        const std::int64_t before = created;
        const bool got = supply.make_available(wanted);
        ASSERT_EQ(got, wanted <= created - in_use);
        if (wanted <= fresh) ASSERT_EQ(created, before) << "there were enough";
        for (std::int64_t i = 0; got && i < wanted; ++i, ++in_use) held.push_back(*pool.allocate_one());
      }
      ASSERT_EQ(pool.num_blocks(), created);
      ASSERT_EQ(supply.num_pages(), all);
      ASSERT_EQ(supply.num_free(), all - in_use);
    }
  }
}

}  // namespace
}  // namespace pagoda
