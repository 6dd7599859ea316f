#include "kv_cache/reserved_kv_manager.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace pagoda {
namespace {

// Goal: the allocator refuses only when there is no free, aligned region of the size; regions never
// overlap. Method: a plain array of blocks, scanned for such a region.
TEST(BuddyAllocatorProperty, RefusesOnlyWhenNoAlignedRegionIsFree) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 rng(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::int32_t>(rng() % n); };
    const std::int32_t num_blocks = 1 + below(70);
    BuddyAllocator buddies(num_blocks);
    std::vector<bool> used(static_cast<std::size_t>(num_blocks));
    std::map<std::int32_t, std::int32_t> held;  // first -> size
    const auto set = [&](std::int32_t first, std::int32_t size, bool value) {
      for (std::int32_t i = first; i < first + size; ++i) {
        ASSERT_NE(used.at(static_cast<std::size_t>(i)), value);
        used[static_cast<std::size_t>(i)] = value;
      }
    };
    for (int step = 0; step < 300; ++step) {
      if (below(3) != 0 || held.empty()) {
        const std::int32_t count = 1 + below(12), size = BuddyAllocator::region_size(count);
        ASSERT_GE(size, count);
        ASSERT_LT(size, 2 * count);
        bool possible = false;
        for (std::int32_t first = 0; first + size <= num_blocks && !possible; first += size) {
          possible = std::find(used.begin() + first, used.begin() + first + size, true) ==
                     used.begin() + first + size;
        }
        const auto got = buddies.allocate(count);
        ASSERT_EQ(got.has_value(), possible);
        if (got) {
          ASSERT_EQ(*got % size, 0);
          set(*got, size, true);
          held.emplace(*got, size);
        }
      } else {
        const auto it = std::next(held.begin(), below(held.size()));
        buddies.free(it->first);
        set(it->first, it->second, false);
        held.erase(it);
      }
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_EQ(buddies.num_free(), std::count(used.begin(), used.end(), false));
      buddies.check_invariants();
    }
    for (const auto& [first, size] : held) buddies.free(first);
    ASSERT_EQ(buddies.num_free(), num_blocks);
    for (std::int32_t count = 1; count <= num_blocks; ++count) {
      std::int64_t regions = 0;
      std::vector<std::int32_t> firsts;
      while (const auto first = buddies.allocate(count)) firsts.push_back(*first), ++regions;
      ASSERT_EQ(regions, buddies.regions_when_empty(count));
      for (const std::int32_t first : firsts) buddies.free(first);
    }
  }
}

constexpr SequenceId kA{1}, kB{2}, kC{3};

std::int64_t reserved_for(Reservation reservation, std::int32_t prompt, std::int32_t output) {
  ReservedKvManager kv(
      {.block_size = 1, .num_blocks = 2048, .max_model_len = 2048, .reservation = reservation});
  kv.add_sequence(kA, {}, "", true);
  EXPECT_TRUE(kv.reserve(kA, prompt, prompt + output, 0));
  const KvUsage usage = kv.usage();
  return usage.token_slots + usage.reserved_slots + usage.internal_slots;
}

TEST(ReservedKvManager, ReservesAsThePaperSays) {  // §6.1: an output of 25 tokens takes 32
  EXPECT_EQ(reserved_for(Reservation::oracle, 7, 25), 7 + 25);
  EXPECT_EQ(reserved_for(Reservation::pow2, 7, 25), 7 + 32);
  EXPECT_EQ(reserved_for(Reservation::max, 7, 25), 2048);
}

// The shares of Fig. 2 add up to the pool.
TEST(ReservedKvManager, AccountsForEverySlotOfAFullPool) {
  ReservedKvManager kv(
      {.block_size = 2, .num_blocks = 16, .max_model_len = 32, .reservation = Reservation::pow2});
  std::vector<BlockCopy> copies;
  kv.add_sequence(kA, {}, "", true);
  ASSERT_TRUE(kv.reserve(kA, 5, 10, 0));  // output 5 -> 8: 13 tokens, 7 blocks, a region of 8
  ASSERT_TRUE(kv.grow(kA, 5, copies));
  kv.computed(kA, std::vector<TokenId>(5), 5);
  kv.add_sequence(kB, {}, "", true);
  ASSERT_TRUE(kv.reserve(kB, 1, 3, 0));  // 3 tokens, 2 blocks
  kv.add_sequence(kC, {}, "", true);
  EXPECT_FALSE(kv.reserve(kC, 16, 18, 0)) << "6 blocks are free, no region of 16";
  const KvUsage usage = kv.usage();
  EXPECT_EQ(usage.token_slots, 5);
  EXPECT_EQ(usage.reserved_slots, 5 + 3);
  EXPECT_EQ(usage.internal_slots, (14 - 10) + (4 - 3));
  EXPECT_EQ(usage.external_slots, 2 + 6 * 2);
  EXPECT_EQ(usage.token_slots + usage.reserved_slots + usage.internal_slots + usage.external_slots,
            usage.total_slots);
  EXPECT_FALSE(kv.can_ever_reserve(16, 33, 0));
  EXPECT_TRUE(kv.can_ever_reserve(4, 8, 3));
  EXPECT_FALSE(kv.can_ever_reserve(4, 8, 4));
}

TEST(ReservedKvManager, ForksCopyIntoTheRegionKeptForThem) {
  ReservedKvManager kv(
      {.block_size = 2, .num_blocks = 8, .max_model_len = 16, .reservation = Reservation::oracle});
  std::vector<BlockCopy> copies;
  kv.add_sequence(kA, {}, "", true);
  ASSERT_TRUE(kv.reserve(kA, 3, 7, 1));
  EXPECT_EQ(kv.num_free_blocks(), 0);
  ASSERT_TRUE(kv.grow(kA, 3, copies));
  kv.computed(kA, std::vector<TokenId>(3), 3);
  kv.fork(kA, kB);
  kv.check_invariants();
  kv.free(kA);  // the content is read before anyone can write it
  ASSERT_TRUE(kv.grow(kB, 4, copies));
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(index(copies[0].from), 0);
  EXPECT_EQ(index(copies[0].to), 4);
  EXPECT_EQ(index(copies[1].to), 5);
  EXPECT_EQ(kv.tables(kB).blocks.size(), 2u);
  EXPECT_FALSE(kv.grow(kB, 9, copies));
  kv.free(kB);
  EXPECT_EQ(kv.num_free_blocks(), 8);
  kv.check_invariants();
}

// Two beams in regions of 3 blocks: one is dropped, the other goes on twice, over and over; the dropped one's
// region is taken again, and copied whole.
TEST(ReservedKvManager, AFamilyOfBeamsKeepsItsRegions) {
  ReservedKvManager kv({.block_size = 4, .num_blocks = 8, .max_model_len = 12});
  kv.add_sequence(kA, {}, "", true);
  ASSERT_TRUE(kv.reserve(kA, 5, 12, 1, ReservedKvManager::Forks::often));
  EXPECT_EQ(kv.num_free_blocks(), 0);  // two of 4
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.grow(kA, 5, copies));
  kv.computed(kA, {}, 5);
  kv.fork(kA, kB);
  SequenceId stays = kA, dropped = kB;
  for (std::int32_t i = 0; i < 6; ++i) {
    copies.clear();
    const std::int32_t length = 6 + i;
    ASSERT_TRUE(kv.grow(stays, length, copies) && kv.grow(dropped, length, copies));
    EXPECT_EQ(copies.size(), 3u) << "all blocks of a region, computed or not";
    kv.computed(stays, {}, length);
    kv.computed(dropped, {}, length);
    const BlockId region = kv.tables(dropped).blocks.front();
    kv.free(dropped);
    EXPECT_EQ(kv.num_free_blocks(), 0) << "the family keeps it";
    EXPECT_EQ(kv.blocks_owned_by(std::vector{stays}), 8);
    kv.check_invariants();
    const SequenceId child{static_cast<std::uint64_t>(10 + i)};
    kv.fork(stays, child);
    EXPECT_EQ(kv.tables(child).blocks.front(), region);
    kv.check_invariants();
    if (i % 2 == 0)
      dropped = child;
    else
      dropped = std::exchange(stays, child);
  }
  kv.free(dropped);
  kv.free(stays);
  EXPECT_EQ(kv.num_free_blocks(), 8);
  kv.check_invariants();
}

}  // namespace
}  // namespace pagoda
