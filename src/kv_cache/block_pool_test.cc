#include "kv_cache/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace pagoda {
namespace {

// Blocks allocated one after the other, and released in this order.
std::vector<BlockId> allocate(BlockPool& pool, std::int32_t count) {
  std::vector<BlockId> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(*pool.allocate_one());
  return out;
}

void release(BlockPool& pool, const std::vector<BlockId>& blocks) {
  for (const BlockId block : blocks) pool.release_one(block);
}

BlockHash hash_of(std::uint64_t content) { return {{content, 1, 2, 3}}; }

TEST(BlockPool, HandsOutFreeBlocksBeforeCachedOnesLastReleasedFirst) {
  BlockPool pool(4);
  const auto all = allocate(pool, 4);
  EXPECT_EQ(all, (std::vector{BlockId{0}, BlockId{1}, BlockId{2}, BlockId{3}}));
  EXPECT_TRUE(pool.publish(BlockId{1}, hash_of(1)));
  EXPECT_TRUE(pool.publish(BlockId{3}, hash_of(3)));
  release(pool, std::vector{BlockId{3}, BlockId{0}, BlockId{1}, BlockId{2}});
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.num_cached(), 2);
  // 2 was released after 0; 3 was cached before 1.
  EXPECT_EQ(allocate(pool, 4), (std::vector{BlockId{2}, BlockId{0}, BlockId{3}, BlockId{1}}));
  EXPECT_FALSE(pool.acquire_cached(hash_of(1)).has_value()) << "evicted content must be forgotten";
}

TEST(BlockPool, RowsHeldBackGoAfterAllOthers) {
  for (const Eviction eviction : {Eviction::lru, Eviction::lfu}) {
    BlockPool pool(4, 0, eviction);
    const auto blocks = allocate(pool, 4);
    for (std::size_t i = 0; i < 4; ++i) pool.publish(blocks[i], hash_of(i));
    release(pool, blocks);
    for (const std::size_t i : {0, 1, 3}) pool.hold_back(blocks[i]);
    EXPECT_EQ(pool.num_held_back(), 3);
    EXPECT_EQ(pool.next_held_back(), blocks[0]);
    pool.check_invariants();
    std::vector<BlockId> order;
    pool.append_cached(order);
    EXPECT_EQ(order, (std::vector{blocks[2], blocks[0], blocks[1], blocks[3]}));
    ASSERT_TRUE(pool.acquire_cached(hash_of(0)));
    EXPECT_EQ(pool.num_held_back(), 2) << "somebody uses it";
    release(pool, {blocks[0]});
    pool.let_go(blocks[3]);
    pool.check_invariants();
    const auto last = eviction == Eviction::lru ? std::vector<std::size_t>{2, 0, 3, 1}
                                                : std::vector<std::size_t>{2, 3, 0, 1};
    for (const std::size_t i : last) {
      ASSERT_TRUE(pool.find_cached(hash_of(i)));
      ASSERT_TRUE(pool.allocate_one());
      EXPECT_FALSE(pool.find_cached(hash_of(i)));
      pool.check_invariants();
    }
    EXPECT_EQ(pool.num_held_back(), 0);
  }
}

TEST(BlockPool, EndOfAPrefixIsEvictedBeforeItsBeginning) {
  BlockPool pool(3);
  const auto blocks = allocate(pool, 3);
  for (int i = 0; i < 3; ++i)
    pool.publish(blocks[static_cast<std::size_t>(i)], hash_of(10 + static_cast<unsigned>(i)));
  release(pool, std::vector(blocks.rbegin(), blocks.rend()));
  ASSERT_TRUE(pool.allocate_one());
  EXPECT_FALSE(pool.find_cached(hash_of(12)));
  EXPECT_TRUE(pool.find_cached(hash_of(11)));
  EXPECT_TRUE(pool.find_cached(hash_of(10)));
}

TEST(BlockPool, UnderLfuWhatWasFoundIsKept) {
  for (const Eviction eviction : {Eviction::lru, Eviction::lfu}) {
    BlockPool pool(2, 0, eviction);
    const auto blocks = allocate(pool, 2);
    for (std::size_t i = 0; i < 2; ++i) pool.publish(blocks[i], hash_of(i));
    release(pool, blocks);
    ASSERT_TRUE(pool.acquire_cached(hash_of(0)));
    ASSERT_TRUE(pool.acquire_cached(hash_of(1)));
    ASSERT_TRUE(pool.acquire_cached(hash_of(0)));  // twice
    release(pool, std::vector{blocks[0], blocks[0], blocks[1]});
    ASSERT_TRUE(pool.allocate_one());
    EXPECT_EQ(pool.find_cached(hash_of(0)).has_value(), eviction == Eviction::lfu);
    EXPECT_EQ(pool.find_cached(hash_of(1)).has_value(), eviction == Eviction::lru);
    pool.check_invariants();
  }
}

TEST(BlockPool, AllOrNothing) {
  BlockPool pool(2);
  std::vector<BlockId> pages;
  EXPECT_FALSE(pool.allocate_row(3, pages));
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_TRUE(pool.allocate_row(2, pages));
  EXPECT_FALSE(pool.allocate_one());
}

TEST(BlockPool, FirstPublisherKeepsTheHash) {
  BlockPool pool(2);
  const auto blocks = allocate(pool, 2);
  EXPECT_TRUE(pool.publish(blocks[0], hash_of(7)));
  EXPECT_FALSE(pool.publish(blocks[1], hash_of(7)));
  release(pool, blocks);
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_EQ(pool.acquire_cached(hash_of(7)), blocks[0]);
  pool.check_invariants();
  pool.release_one(blocks[0]);
  pool.clear_cache();
  EXPECT_EQ(pool.num_cached(), 0);
  EXPECT_EQ(pool.num_free(), 2);
  pool.check_invariants();
}

// Goal: under any order of allocate, publish, share and release, BlockPool agrees with a model so plain
// that it needs no test of its own. Method: random operations drawn from one seed.
void compare_pool(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  constexpr std::size_t kNumBlocks = 8;
  BlockPool pool(kNumBlocks);
  std::map<BlockId, int> refs;               // the model: references of each block in use,
  std::map<std::uint64_t, BlockId> content;  // which block holds which published hash,
  std::vector<BlockId> cached;               // and the cached ones, least recently released first

  for (std::uint64_t step = 0; step < 500; ++step) {
    switch (below(3)) {
      case 0: {  // allocate and usually publish one block
        const bool evicts = refs.size() + cached.size() == kNumBlocks;
        const auto got = pool.allocate_one();
        ASSERT_EQ(got.has_value(), refs.size() < kNumBlocks);
        if (!got) break;
        ASSERT_TRUE(refs.emplace(*got, 1).second) << "block given out twice";
        if (evicts) {
          ASSERT_EQ(*got, cached.front()) << "not the least recently released";
          cached.erase(cached.begin());
        }
        std::erase_if(content, [&](const auto& entry) { return entry.second == *got; });
        if (below(4) == 0) break;
        ASSERT_TRUE(pool.publish(*got, hash_of(step)));
        content.emplace(step, *got);
        break;
      }
      case 1: {  // share a prefix block: a hit exactly when the model still has it
        const std::uint64_t wanted =
            content.empty() || below(4) == 0
                ? rng() % (step + 1)
                : std::next(content.begin(), static_cast<long>(below(content.size())))->first;
        const auto got = pool.acquire_cached(hash_of(wanted));
        ASSERT_EQ(got.has_value(), content.contains(wanted));
        if (!got) break;
        ASSERT_EQ(*got, content.at(wanted));
        if (++refs[*got] == 1) std::erase(cached, *got);
        break;
      }
      case 2: {  // drop one reference
        if (refs.empty()) break;
        const auto it = std::next(refs.begin(), static_cast<long>(below(refs.size())));
        const BlockId block = it->first;
        pool.release_one(block);
        if (--it->second > 0) break;
        refs.erase(it);
        for (const auto& [hash, holder] : content) {
          if (holder == block) cached.push_back(block);
        }
        break;
      }
    }
    ASSERT_EQ(pool.num_free(), static_cast<int>(kNumBlocks - refs.size()));
    ASSERT_EQ(pool.num_cached(), static_cast<int>(cached.size()));
    pool.check_invariants();
  }
}

TEST(BlockPoolProperty, AgreesWithModel) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    compare_pool(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pagoda
