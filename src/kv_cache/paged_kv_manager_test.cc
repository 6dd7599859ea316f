#include "kv_cache/paged_kv_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "kv_cache/texts_test_support.h"

namespace pagoda {
namespace {

using testing::counted;
using testing::state_after;

std::vector<BlockId> ids(std::initializer_list<std::int32_t> values) {
  std::vector<BlockId> out;
  for (const std::int32_t value : values) out.push_back(BlockId{value});
  return out;
}
std::vector<BlockId> table(const PagedKvManager& kv, SequenceId id) {
  const auto span = kv.tables(id).blocks;
  return {span.begin(), span.end()};
}

class Paper : public ::testing::Test {
 protected:
  // The pool hands out what was released last first: releasing in reverse gives the figures' ids.
  void hand_out_in_order(std::initializer_list<std::int32_t> order) {
    std::vector<BlockCopy> none;
    for (std::uint64_t i = 0; i < 9; ++i) {
      kv.add_sequence(SequenceId{1000 + i}, {}, "", false);
      ASSERT_TRUE(kv.grow(SequenceId{1000 + i}, 1, none));
    }
    std::vector<std::uint64_t> reversed(order.begin(), order.end());
    for (std::uint64_t i = 0; i < 9; ++i) {
      if (std::ranges::find(reversed, i) == reversed.end()) kv.free(SequenceId{1000 + i});
    }
    for (auto it = reversed.rbegin(); it != reversed.rend(); ++it) kv.free(SequenceId{1000 + *it});
  }
  PagedKvManager kv{{.block_size = 4, .num_blocks = 9, .enable_prefix_caching = false, .model_id = {}}};
  std::vector<BlockCopy> copies;
  const SequenceId a{1}, b{2};
};

// "Four score and seven years ago our" + "fathers" + "brought": blocks 7, 1, then 3.
TEST_F(Paper, Figure6) {
  hand_out_in_order({7, 1, 3});
  const auto tokens = counted(9);
  kv.add_sequence(a, std::span(tokens).first(7), "", true);
  ASSERT_TRUE(kv.grow(a, 7, copies));
  kv.computed(a, tokens, 7);
  EXPECT_EQ(table(kv, a), ids({7, 1}));
  EXPECT_EQ(kv.inspection().usage().token_slots, 7);  // #filled 4 and 3
  EXPECT_EQ(kv.inspection().usage().internal_slots, 1);
  ASSERT_TRUE(kv.grow(a, 8, copies));  // first decode fills block 1
  kv.computed(a, tokens, 8);
  EXPECT_EQ(table(kv, a), ids({7, 1}));
  EXPECT_EQ(kv.inspection().usage().internal_slots, 0);
  ASSERT_TRUE(kv.grow(a, 9, copies));  // second decode needs a new block
  EXPECT_EQ(table(kv, a), ids({7, 1, 3}));
  EXPECT_TRUE(copies.empty());
}

// Two requests side by side: A in 7, 1, 3 and B in 5, 2.
TEST_F(Paper, Figure7) {
  hand_out_in_order({7, 1, 5, 2, 3});
  const auto tokens = counted(10);
  kv.add_sequence(a, tokens, "", true);
  ASSERT_TRUE(kv.grow(a, 7, copies));
  kv.add_sequence(b, tokens, "", true);
  ASSERT_TRUE(kv.grow(b, 5, copies));
  kv.computed(a, tokens, 7);
  kv.computed(b, tokens, 5);
  ASSERT_TRUE(kv.grow(a, 9, copies));
  ASSERT_TRUE(kv.grow(b, 6, copies));
  EXPECT_EQ(table(kv, a), ids({7, 1, 3}));
  EXPECT_EQ(table(kv, b), ids({5, 2}));
  kv.free(a);
  kv.free(b);
  EXPECT_EQ(kv.num_free_blocks(), 9);
}

// Parallel sampling: A1 and A2 share the prompt's blocks 7 and 1; A1 writes first and gets a copy of
// block 1 in block 3; A2 then writes in place.
TEST_F(Paper, Figure8) {
  hand_out_in_order({7, 1, 3});
  auto tokens = counted(7);
  kv.add_sequence(a, tokens, "", true);
  ASSERT_TRUE(kv.grow(a, 7, copies));
  kv.computed(a, tokens, 7);
  kv.sharing().fork(a, b);
  EXPECT_EQ(kv.parts().pool.ref_count(BlockId{7}), 2);
  EXPECT_EQ(kv.parts().pool.ref_count(BlockId{1}), 2);
  EXPECT_EQ(kv.inspection().usage().blocks_in_use, 2);
  EXPECT_EQ(kv.inspection().usage().blocks_without_sharing, 4);
  EXPECT_EQ(kv.blocks_to_grow(a, 8), 1);
  ASSERT_TRUE(kv.grow(a, 8, copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, BlockId{1});
  EXPECT_EQ(copies[0].to, BlockId{3});
  EXPECT_EQ(kv.parts().pool.ref_count(BlockId{1}), 1);
  EXPECT_EQ(kv.blocks_to_grow(b, 8), 0);
  ASSERT_TRUE(kv.grow(b, 8, copies));
  EXPECT_EQ(copies.size(), 1u) << "the second writer writes in place";
  EXPECT_EQ(table(kv, a), ids({7, 3}));
  EXPECT_EQ(table(kv, b), ids({7, 1}));
  kv.inspection().check_invariants();
}

TEST(PagedKvManager, PrefixHitsNeedEqualSaltAndLeaveTheLastToken) {
  PagedKvManager kv({.block_size = 4, .num_blocks = 16, .enable_prefix_caching = true, .model_id = "m"});
  std::vector<BlockCopy> copies;
  const auto tokens = counted(12);
  EXPECT_EQ(kv.add_sequence(SequenceId{1}, tokens, "s", true), 0);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 12, copies));
  kv.computed(SequenceId{1}, tokens, 12);
  const auto first = table(kv, SequenceId{1});
  EXPECT_EQ(kv.add_sequence(SequenceId{2}, tokens, "s", true), 8)
      << "shared while in use; the last block not";
  EXPECT_EQ(kv.add_sequence(SequenceId{3}, tokens, "other", true), 0);
  EXPECT_EQ(kv.add_sequence(SequenceId{4}, tokens, "s", false), 0);
  kv.free(SequenceId{1});
  EXPECT_EQ(kv.add_sequence(SequenceId{5}, counted(13), "s", true), 12);
  EXPECT_EQ(table(kv, SequenceId{5}), first);
  EXPECT_EQ(kv.inspection().prefix_cache_stats().hits, 0) << "nobody got room yet";
  ASSERT_TRUE(kv.grow(SequenceId{5}, 13, copies));
  EXPECT_EQ(kv.inspection().prefix_cache_stats().hits, 12);
  EXPECT_EQ(kv.inspection().prefix_cache_stats().queries, 12 + 13);
  kv.inspection().check_invariants();
}

TEST(PagedKvManager, ACollidingHashIsAMissWhenHitsAreVerified) {
  PagedKvManager kv({.block_size = 4,
                     .num_blocks = 16,
                     .enable_prefix_caching = true,
                     .model_id = "m",
                     .verify_hits = true,
                     .hash_bits = 0});
  std::vector<BlockCopy> copies;
  kv.add_sequence(SequenceId{1}, counted(9), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 9, copies));
  kv.computed(SequenceId{1}, counted(9), 9);
  EXPECT_EQ(kv.add_sequence(SequenceId{2}, counted(9, 100), "", true), 0);
}

TEST(PagedKvManager, ForkPrefixSharesOnlyFullBlocksAndPublishesUnderTheRightChain) {
  PagedKvManager kv({.block_size = 4, .num_blocks = 16, .enable_prefix_caching = true, .model_id = "m"});
  std::vector<BlockCopy> copies;
  auto tokens = counted(16);
  kv.add_sequence(SequenceId{1}, tokens, "s", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 16, copies));
  kv.computed(SequenceId{1}, tokens, 10);
  EXPECT_EQ(kv.sharing().fork_prefix(SequenceId{1}, SequenceId{2}, 10), 8);
  for (std::size_t i = 8; i < 16; ++i) tokens[i] += 100;
  ASSERT_TRUE(kv.grow(SequenceId{2}, 16, copies));
  EXPECT_TRUE(copies.empty());
  kv.computed(SequenceId{2}, tokens, 16);
  tokens.push_back(5);
  EXPECT_EQ(kv.add_sequence(SequenceId{3}, tokens, "s", true), 16);
  EXPECT_EQ(table(kv, SequenceId{3}), table(kv, SequenceId{2}));
  kv.inspection().check_invariants();
}

TEST(PagedKvManager, FullIsAnAnswerThatChangesNothing) {
  PagedKvManager kv({.block_size = 4, .num_blocks = 2, .enable_prefix_caching = true, .model_id = {}});
  std::vector<BlockCopy> copies;
  kv.add_sequence(SequenceId{1}, counted(4), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 4, copies));
  EXPECT_FALSE(kv.grow(SequenceId{1}, 9, copies));
  EXPECT_EQ(kv.num_free_blocks(), 1);
  EXPECT_EQ(kv.tables(SequenceId{1}).blocks.size(), 1u);
  kv.inspection().check_invariants();
}

std::vector<KvGroup> draw_groups(std::mt19937_64& rng, std::int32_t size) {
  const auto below = [&](std::int32_t n) {
    return static_cast<std::int32_t>(rng() % static_cast<unsigned>(n));
  };
  std::vector<KvGroup> out;
  if (below(4) != 0) out.push_back({.tokens_per_row = size, .pages_per_row = 1 + below(2)});
  for (std::int32_t windows = out.empty() ? 1 : below(3); windows > 0; --windows) {
    out.push_back({.kind = KvKind::window,
                   .window = 1 + below(9),
                   .tokens_per_row = size,
                   .pages_per_row = 1 + below(3)});
  }
  if (below(3) == 0)
    out.push_back({.kind = KvKind::state, .tokens_per_row = size, .pages_per_row = 1 + below(3)});
  return out;
}

// Goal: whatever the order of adding, growing, forking and freeing, every sequence finds its own tokens
// in its rows, as far back as each group's next position sees, and a promised prompt always gets on. Method:
// a naive store keeps the tokens that a runner would have written in each slot of each page; copies are
// carried out; each sequence's slots are compared with its tokens after every operation.
std::size_t num_state_copies = 0, num_paged_state_hits = 0, num_tail_hits = 0;

void compare_paged(std::uint64_t seed, bool grouped) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  const std::size_t size = 1 + below(5);
  const std::vector<KvGroup> groups = grouped ? draw_groups(rng, static_cast<std::int32_t>(size))
                                              : one_full_group(static_cast<std::int32_t>(size));
  const std::int32_t num_blocks = 6 + static_cast<std::int32_t>(below(grouped ? 60 : 12));
  const auto num_swap_blocks = static_cast<std::int32_t>(below(static_cast<std::size_t>(num_blocks) + 1));
  PagedKvManager kv({.block_size = static_cast<std::int32_t>(size),
                     .num_blocks = num_blocks,
                     .num_swap_blocks = num_swap_blocks,
                     .enable_prefix_caching = below(4) != 0,
                     .model_id = "m",
                     .verify_hits = true,
                     .groups = groups});
  std::vector<TokenId> store(static_cast<std::size_t>(num_blocks) * size, -1);
  std::vector<TokenId> swap_store(static_cast<std::size_t>(num_swap_blocks) * size, -1);
  struct Model {
    std::vector<TokenId> tokens;
    std::size_t computed = 0;
    std::string salt;
    std::size_t gang = 0;  // swapped out together with those of the same number; 0: not swapped out
    std::size_t promised = 0, chunk = 0;
  };
  std::map<std::uint64_t, Model> model;
  std::uint64_t next_id = 1;
  // Page `page` of the row of a group; its value tells all three apart.
  const auto slot = [&](std::uint64_t id, std::size_t group, std::size_t page,
                        std::size_t position) -> TokenId& {
    const KvTable table = kv.inspection().pages_of(SequenceId{id}, group);
    const auto per_row = static_cast<std::size_t>(groups[group].pages_per_row);
    if (groups[group].is_state()) position = 0;
    const std::size_t row = position / size - static_cast<std::size_t>(table.first_row);
    return store[static_cast<std::size_t>(index(table.blocks[row * per_row + page])) * size +
                 position % size];
  };
  const auto value = [&](const Model& seq, std::size_t i, std::size_t group, std::size_t page) {
    const TokenId token = groups[group].is_state() ? state_after(seq.tokens, i + 1) : seq.tokens[i];
    return token + static_cast<TokenId>(10 * group + 100 * page);
  };
  // Calls f(group, page, position) for all that the sequence's next position sees and it has computed, and
  // for `more` tokens behind.
  const auto each_slot = [&](std::size_t computed, std::size_t end, std::size_t from, auto f) {
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const auto window = static_cast<std::size_t>(groups[group].window);
      std::size_t first = window == 0 || computed + 1 < window ? 0 : computed + 1 - window;
      if (groups[group].is_state() && end > 0) first = end - 1;  // it is of the last token
      for (std::size_t i = std::max(first, from); i < end; ++i)
        for (std::size_t page = 0; page < static_cast<std::size_t>(groups[group].pages_per_row); ++page)
          f(group, page, i);
    }
  };
  const auto any = [&] { return std::next(model.begin(), static_cast<long>(below(model.size()))); };
  const auto move_block = [&](const std::vector<TokenId>& from, std::int32_t from_block,
                              std::vector<TokenId>& to, std::int32_t to_block) {
    std::copy_n(from.begin() + from_block * static_cast<std::int32_t>(size), size,
                to.begin() + to_block * static_cast<std::int32_t>(size));
  };
  std::size_t num_gangs = 0;
  for (int step = 0; step < 400; ++step) {
    switch (below(8)) {
      case 0: {  // a new sequence over a two-letter alphabet, so that prefixes meet
        Model fresh;
        for (std::size_t i = 0, n = 1 + below(14); i < n; ++i)
          fresh.tokens.push_back(static_cast<TokenId>(below(2)));
        fresh.salt = below(2) == 0 ? "x" : "y";
        fresh.computed = static_cast<std::size_t>(
            kv.add_sequence(SequenceId{next_id}, fresh.tokens, fresh.salt, below(5) != 0));
        if (groups.back().is_state() && fresh.computed > 0)
          ++(fresh.computed % size == 0 ? num_paged_state_hits : num_tail_hits);
        if (kv.num_available_blocks() < 0)  // its cached blocks are promised to others
          kv.free(SequenceId{next_id});
        else
          model.emplace(next_id, std::move(fresh));
        ++next_id;
        break;
      }
      case 1:
      case 2: {  // a step: grow to some number of tokens, carry out the copies, write, report
        if (model.empty()) break;
        auto& [id, seq] = *any();
        if (seq.gang != 0) break;
        if (seq.computed == seq.tokens.size()) seq.tokens.push_back(static_cast<TokenId>(below(2)));
        std::size_t target = seq.computed + 1 + below(seq.tokens.size() - seq.computed);
        if (below(3) == 0 && seq.promised == 0) {
          const auto total = static_cast<std::int32_t>(seq.tokens.size());
          const auto chunk = static_cast<std::int32_t>(1 + below(6));
          const std::int64_t lacking = kv.pages_to_promise(SequenceId{id}, total, chunk);
          const bool promised = kv.promise(SequenceId{id}, total, chunk);
          ASSERT_EQ(promised, lacking <= kv.num_available_blocks() + (promised ? lacking : 0));
          if (promised) seq.promised = seq.tokens.size();
          seq.chunk = static_cast<std::size_t>(chunk);
        }
        if (seq.promised > 0)
          target = static_cast<std::size_t>(
              kv.most_tokens(SequenceId{id}, static_cast<std::int32_t>(std::min(target, seq.promised))));
        if (seq.promised > 0 && target < std::min(seq.promised, seq.computed + seq.chunk)) {
          target = std::min(seq.promised, seq.computed + seq.chunk);
          ASSERT_EQ(kv.most_tokens(SequenceId{id}, static_cast<std::int32_t>(target)), target) << "a promise";
        }
        std::vector<BlockCopy> copies;
        const std::int64_t needed = kv.blocks_to_grow(SequenceId{id}, static_cast<std::int32_t>(target));
        const std::int64_t before = kv.num_free_blocks(), available = kv.num_available_blocks();
        const bool ok = kv.grow(SequenceId{id}, static_cast<std::int32_t>(target), copies);
        if (seq.promised > 0) ASSERT_TRUE(ok);
        if (seq.promised == 0) ASSERT_EQ(ok, needed == 0 || needed <= available);
        // A row copied because it is published, which nobody else uses, can be evicted then.
        if (ok && !groups.empty() && groups.back().is_state())
          ASSERT_GE(kv.num_free_blocks(), before - needed);
        else
          ASSERT_EQ(kv.num_free_blocks(), ok ? before - needed : before);
        if (!ok) break;
        if (!grouped) ASSERT_LE(copies.size(), 1u);
        for (const BlockCopy& copy : copies) {
          for (std::size_t i = 0; i < size; ++i) {
            store[static_cast<std::size_t>(index(copy.to)) * size + i] =
                store[static_cast<std::size_t>(index(copy.from)) * size + i];
          }
        }
        std::vector<StateCopy> states;
        kv.copy_states(SequenceId{id}, 0, static_cast<std::int32_t>(target), states);
        for (const StateCopy& copy : states) {
          for (std::int32_t i = 0; i < copy.count; ++i)
            store[static_cast<std::size_t>(index(copy.page) + i) * size] =
                value(seq, static_cast<std::size_t>(copy.position) - 1, static_cast<std::size_t>(copy.group),
                      static_cast<std::size_t>(copy.first_page + i));
        }
        num_state_copies += states.size();
        each_slot(seq.computed, target, seq.computed,
                  [&](std::size_t group, std::size_t page, std::size_t i) {
                    slot(id, group, page, i) = value(seq, i, group, page);
                  });
        seq.computed = target;
        if (seq.computed >= seq.promised) seq.promised = 0;
        kv.computed(SequenceId{id}, seq.tokens, static_cast<std::int32_t>(target));
        break;
      }
      case 3: {  // fork whole, or a prefix
        if (model.empty() || model.size() > 12) break;
        const auto parent = any();
        if (parent->second.gang != 0) break;
        Model child = parent->second;
        child.promised = 0;
        // Not in the middle of a promise: the last row would be shared with nothing set aside for the copy.
        if (parent->second.promised > 0) break;
        if (below(2) == 0) {
          kv.sharing().fork(SequenceId{parent->first}, SequenceId{next_id});
        } else {
          child.computed = static_cast<std::size_t>(
              kv.sharing().fork_prefix(SequenceId{parent->first}, SequenceId{next_id},
                                       static_cast<std::int32_t>(below(parent->second.computed + 1))));
        }
        if (kv.num_available_blocks() < 0)  // the state it takes from the cache is promised to others
          kv.free(SequenceId{next_id});
        else
          model.emplace(next_id, std::move(child));
        ++next_id;
        break;
      }
      case 4: {
        if (model.empty()) break;
        const auto it = any();
        kv.free(SequenceId{it->first});
        model.erase(it);
        break;
      }
      case 5: {  // a group gives back the rows that it alone holds
        std::vector<SequenceId> group;
        for (const auto& [id, seq] : model) {
          if (below(3) == 0 && seq.gang == 0) group.push_back(SequenceId{id});
        }
        const std::int64_t owned = kv.sharing().blocks_owned_by(group);
        const std::int64_t before = kv.num_free_blocks();
        if (below(4) != 0) break;
        for (const SequenceId id : group) {
          kv.free(id);
          model.erase(static_cast<std::uint64_t>(id));
        }
        ASSERT_EQ(kv.num_free_blocks(), before + owned);
        break;
      }
      case 6: {  // swap a gang out: each of its blocks once, or nothing at all
        std::vector<SequenceId> group;
        for (const auto& [id, seq] : model) {
          if (below(3) == 0 && seq.gang == 0) group.push_back(SequenceId{id});
        }
        std::vector<SwapCopy> copies;
        const std::int64_t owned = kv.sharing().blocks_owned_by(group),
                           needed = kv.swap().swap_cost(group).pages;
        const std::int64_t before = kv.num_free_blocks(), swap_before = kv.swap().num_free_swap_blocks();
        const bool ok = kv.swap().swap_out(group, copies);
        ASSERT_EQ(ok, num_swap_blocks > 0 && needed <= swap_before);
        ASSERT_EQ(copies.size(), static_cast<std::size_t>(ok ? needed : 0));
        ASSERT_EQ(kv.num_free_blocks(), before + (ok ? owned : 0));
        ASSERT_EQ(kv.swap().num_free_swap_blocks(), swap_before - (ok ? needed : 0));
        if (!ok) break;
        ++num_gangs;
        for (const SequenceId id : group) {
          model.at(static_cast<std::uint64_t>(id)).gang = num_gangs;
          model.at(static_cast<std::uint64_t>(id)).promised = 0;
        }
        for (const SwapCopy& copy : copies)
          move_block(store, index(copy.block), swap_store, static_cast<std::int32_t>(copy.swap_block));
        break;
      }
      case 7: {  // and in again
        if (num_gangs == 0) break;
        const std::size_t gang = 1 + below(num_gangs);
        std::vector<SequenceId> group;
        for (const auto& [id, seq] : model) {
          if (seq.gang == gang) group.push_back(SequenceId{id});
        }
        if (group.empty()) break;
        std::vector<SwapCopy> copies;
        const std::int64_t before = kv.num_free_blocks(), needed = kv.swap().swap_cost(group).pages;
        const std::int64_t available = kv.num_available_blocks();
        const bool ok = kv.swap().swap_in(group, copies);
        ASSERT_EQ(ok, needed <= available);
        ASSERT_EQ(kv.num_free_blocks(), before - (ok ? needed : 0));
        if (!ok) break;
        for (const SequenceId id : group) model.at(static_cast<std::uint64_t>(id)).gang = 0;
        for (const SwapCopy& copy : copies)
          move_block(swap_store, static_cast<std::int32_t>(copy.swap_block), store, index(copy.block));
        break;
      }
    }
    kv.inspection().check_invariants();
    std::int64_t without_sharing = 0;
    for (const auto& [id, seq] : model) {
      if (seq.gang != 0) continue;
      for (std::size_t group = 0; group < groups.size(); ++group)
        without_sharing += std::ssize(kv.inspection().pages_of(SequenceId{id}, group).blocks);
      bool right = true;
      each_slot(seq.computed, seq.computed, 0, [&](std::size_t group, std::size_t page, std::size_t i) {
        right &= slot(id, group, page, i) == value(seq, i, group, page);
      });
      ASSERT_TRUE(right) << "sequence " << id;
    }
    const KvUsage usage = kv.inspection().usage();
    ASSERT_EQ(usage.blocks_without_sharing, without_sharing);
    ASSERT_EQ(usage.token_slots + usage.reserved_slots + usage.internal_slots,
              usage.blocks_in_use * static_cast<std::int64_t>(size));
    ASSERT_LE(usage.blocks_in_use, usage.blocks_without_sharing);
  }
  for (const auto& [id, seq] : model) kv.free(SequenceId{id});
  ASSERT_EQ(kv.num_free_blocks(), num_blocks);
  ASSERT_EQ(kv.swap().num_free_swap_blocks(), num_swap_blocks);
}

TEST(PagedKvManagerProperty, EverySequenceFindsItsOwnTokens) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    compare_paged(seed, false);
    if (HasFatalFailure()) return;
  }
}

TEST(PagedKvManagerProperty, SoItIsWithGroupsAndWindows) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    compare_paged(seed, true);
    if (HasFatalFailure()) return;
  }
  std::printf("%zu copies of states, %zu hits at a row's border, %zu behind one\n", num_state_copies,
              num_paged_state_hits, num_tail_hits);
  EXPECT_GT(num_state_copies, 0u);
  EXPECT_GT(num_paged_state_hits, 0u);
  EXPECT_GT(num_tail_hits, 0u);
}

}  // namespace
}  // namespace pagoda
