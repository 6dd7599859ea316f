#include "kv_cache/virtual_kv_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "kv_cache/slots_test_support.h"
#include "kv_cache/texts_test_support.h"

namespace pagoda {
namespace {

using testing::counted;
using testing::NaiveMemory;
using testing::state_after;

VirtualKvConfig small(std::int32_t num_pages = 16) {
  VirtualKvConfig config;
  config.pages = {.block_size = 4, .num_blocks = num_pages, .enable_prefix_caching = true, .model_id = "m"};
  config.slots = {.num_slots = 4, .blocks_per_slot = 8};
  return config;
}

std::vector<BlockId> pages_of(const VirtualKvManager& kv, std::uint64_t id) {
  const auto span = kv.inspection().pages_of(SequenceId{id}, 0).blocks;
  return {span.begin(), span.end()};
}

TEST(VirtualKvManager, ASequenceIsContiguousAndItsPagesAreMappedInOneCall) {
  VirtualKvManager kv(small());
  NaiveMemory memory(small().slots);
  std::vector<BlockCopy> copies;
  kv.add_sequence(SequenceId{1}, counted(10), "", true);
  EXPECT_TRUE(kv.tables(SequenceId{1}).blocks.empty()) << "no slot before there is room";
  ASSERT_TRUE(kv.grow(SequenceId{1}, 10, copies));
  const auto table = kv.tables(SequenceId{1}).blocks;
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(index(table[1]), index(table[0]) + 1);
  EXPECT_EQ(index(table[2]), index(table[0]) + 2);
  memory.take(kv);
  EXPECT_EQ(memory.num_now, 1);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(memory.at(table[i]), kv.inspection().pages_of(SequenceId{1}, 0).blocks[i]);
  kv.inspection().check_invariants();
}

TEST(VirtualKvManager, FreePagesBeyondALimitGiveTheirMemoryBack) {
  VirtualKvConfig config = small();
  config.pages.enable_prefix_caching = false;
  config.most_resident_free = 2;
  VirtualKvManager kv(config);
  std::vector<BlockCopy> copies;
  const auto given_back = [&] {  // with one batch
    std::vector<PageMapping> now, ahead;
    kv.take_page_mappings(now, ahead);
    std::set<std::int32_t> pages;
    for (const PageMapping& mapping : ahead) {
      for (std::int32_t i = 0; i < mapping.count && mapping.block == kNoBlock; ++i)
        pages.insert(index(mapping.page) + i);
    }
    return pages;
  };
  const auto come = [&](std::uint64_t id, std::size_t tokens) {
    kv.add_sequence(SequenceId{id}, counted(tokens), "", true);
    return kv.grow(SequenceId{id}, static_cast<std::int32_t>(tokens), copies);
  };
  ASSERT_TRUE(come(1, 28) && come(2, 6));
  EXPECT_TRUE(given_back().empty());
  kv.free(SequenceId{1});
  EXPECT_TRUE(given_back().empty()) << "this batch may still copy what is in them";
  const std::set<std::int32_t> first = given_back();
  EXPECT_EQ(first.size(), 5u) << "seven are free, two of them keep it";
  for (const BlockId page : pages_of(kv, 2)) EXPECT_FALSE(first.contains(index(page)));
  kv.inspection().check_invariants();
  EXPECT_TRUE(given_back().empty()) << "once";
  ASSERT_TRUE(come(3, 28));
  kv.free(SequenceId{3});
  EXPECT_TRUE(given_back().empty());
  ASSERT_TRUE(come(4, 28));
  EXPECT_LE(given_back().size(), 2u) << "those in use again keep it";
  kv.inspection().check_invariants();
}

TEST(VirtualKvManager, AFullPageMeansThatTheNextIsMappedBesideTheStep) {
  VirtualKvManager kv(small());
  NaiveMemory memory(small().slots);
  std::vector<BlockCopy> copies;
  kv.add_sequence(SequenceId{1}, counted(4), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 4, copies));
  memory.take(kv);
  EXPECT_EQ(memory.num_now, 1);
  EXPECT_EQ(memory.num_ahead, 1);
  EXPECT_EQ(kv.num_free_blocks(), 15) << "shown, not owned";
  ASSERT_TRUE(kv.grow(SequenceId{1}, 5, copies));
  memory.take(kv);
  EXPECT_EQ(memory.num_now, 1) << "no call in the step's way";
  EXPECT_EQ(memory.at(kv.tables(SequenceId{1}).blocks[1]),
            kv.inspection().pages_of(SequenceId{1}, 0).blocks[1]);
}

TEST(VirtualKvManager, WhereOnlyCachedPagesAreLeftTheOldestIsMappedAhead) {
  VirtualKvManager kv(small(4));
  NaiveMemory memory(small().slots);
  std::vector<BlockCopy> copies;
  kv.add_sequence(SequenceId{1}, counted(12), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 12, copies));
  kv.computed(SequenceId{1}, counted(12), 12);
  kv.free(SequenceId{1});  // three pages are cached, one is free
  kv.add_sequence(SequenceId{2}, counted(4, 50), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{2}, 4, copies));
  EXPECT_EQ(kv.num_free_blocks(), 3);
  memory.take(kv);
  const std::int64_t before = memory.num_now;
  ASSERT_TRUE(kv.grow(SequenceId{2}, 5, copies));
  memory.take(kv);
  EXPECT_EQ(memory.num_now, before);
  EXPECT_EQ(kv.add_sequence(SequenceId{3}, counted(12), "", true), 8) << "the beginning is still cached";
  kv.inspection().check_invariants();
}

TEST(VirtualKvManager, AFinishedSlotStaysMappedForTheNextOfItsLength) {
  for (const bool deferred : {true, false}) {
    VirtualKvConfig config = small();
    config.pages.enable_prefix_caching = false;
    config.slots.deferred_reclaim = deferred;
    VirtualKvManager kv(config);
    NaiveMemory memory(config.slots);
    std::vector<BlockCopy> copies;
    for (const std::uint64_t id : {1, 2}) {  // 2 pages and 5
      kv.add_sequence(SequenceId{id}, counted(id == 1 ? 7 : 19), "", true);
      ASSERT_TRUE(kv.grow(SequenceId{id}, id == 1 ? 7 : 19, copies));
    }
    const auto long_slot = kv.tables(SequenceId{2}).blocks[0];
    kv.free(SequenceId{1});
    kv.free(SequenceId{2});
    memory.take(kv);
    const std::int64_t before = memory.num_now;
    kv.add_sequence(SequenceId{3}, counted(18, 50), "", true);
    ASSERT_TRUE(kv.grow(SequenceId{3}, 18, copies));
    memory.take(kv);
    EXPECT_EQ(memory.num_now - before, deferred ? 0 : 1);
    if (deferred) EXPECT_EQ(kv.tables(SequenceId{3}).blocks[0], long_slot) << "best fit";
    EXPECT_EQ(kv.slots().counts().reused_blocks, deferred ? 5 : 0);
    kv.inspection().check_invariants();
  }
}

TEST(VirtualKvManager, APrefixHitGoesBackIntoTheSlotThatStillShowsIt) {
  VirtualKvManager kv(small());
  NaiveMemory memory(small().slots);
  std::vector<BlockCopy> copies;
  const auto tokens = counted(16);
  kv.add_sequence(SequenceId{1}, tokens, "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 16, copies));
  kv.computed(SequenceId{1}, tokens, 16);
  kv.add_sequence(SequenceId{2}, counted(16, 100), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{2}, 16, copies));
  const BlockId slot = kv.tables(SequenceId{1}).blocks[0];
  kv.free(SequenceId{1});
  kv.free(SequenceId{2});
  memory.take(kv);
  const std::int64_t before = memory.num_now;
  EXPECT_EQ(kv.add_sequence(SequenceId{3}, tokens, "", true), 12);
  ASSERT_TRUE(kv.grow(SequenceId{3}, 16, copies));
  EXPECT_EQ(kv.tables(SequenceId{3}).blocks[0], slot);
  memory.take(kv);
  EXPECT_LE(memory.num_now - before, 1) << "only the page that is computed again";
}

TEST(VirtualKvManager, ForksMapWholePagesASecondTimeAndCopyTheLastOnFirstWrite) {
  VirtualKvManager kv(small());
  NaiveMemory memory(small().slots);
  std::vector<BlockCopy> copies;
  const auto tokens = counted(8);
  kv.add_sequence(SequenceId{1}, tokens, "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 6, copies));
  kv.computed(SequenceId{1}, tokens, 6);
  kv.sharing().fork(SequenceId{1}, SequenceId{2});
  ASSERT_TRUE(kv.grow(SequenceId{2}, 7, copies));
  ASSERT_EQ(copies.size(), 1u);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 7, copies));
  EXPECT_EQ(copies.size(), 1u) << "the second writer writes in place";
  memory.take(kv);
  EXPECT_NE(kv.tables(SequenceId{1}).blocks[0], kv.tables(SequenceId{2}).blocks[0]);
  EXPECT_EQ(memory.at(kv.tables(SequenceId{1}).blocks[0]), memory.at(kv.tables(SequenceId{2}).blocks[0]));
  EXPECT_EQ(memory.at(kv.tables(SequenceId{1}).blocks[1]), copies[0].from);
  EXPECT_EQ(memory.at(kv.tables(SequenceId{2}).blocks[1]), copies[0].to);
  EXPECT_EQ(kv.inspection().ref_count(pages_of(kv, 1)[0]), 2);
}

TEST(VirtualKvManager, AStepThatMapsAheadAndThenLosesTheSlotKeepsTheOrder) {
  VirtualKvConfig config = small();
  config.slots.num_slots = 1;
  config.slots.deferred_reclaim = false;
  VirtualKvManager kv(config);
  NaiveMemory memory(config.slots);
  std::vector<BlockCopy> copies;
  kv.add_sequence(SequenceId{1}, counted(4), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 4, copies));  // its second page is to be mapped ahead
  kv.free(SequenceId{1});                          // preempted in the same step
  kv.add_sequence(SequenceId{2}, counted(8, 9), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{2}, 7, copies));
  memory.take(kv);
  memory.take(kv);  // late mappings have come
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(memory.at(kv.tables(SequenceId{2}).blocks[i]),
              kv.inspection().pages_of(SequenceId{2}, 0).blocks[i]);
}

TEST(VirtualKvManager, TooFewRegionsIsAnAnswerAfterIdleSlotsAreTakenBack) {
  VirtualKvConfig config = small();
  config.pages.enable_prefix_caching = false;
  config.slots.max_regions = 9;
  VirtualKvManager kv(config);
  std::vector<BlockCopy> copies;
  for (const std::uint64_t id : {1, 2, 3}) {
    kv.add_sequence(SequenceId{id}, counted(8), "", true);
    ASSERT_TRUE(kv.grow(SequenceId{id}, 6, copies)) << id;
    if (id < 3) kv.free(SequenceId{id});
    kv.inspection().check_invariants();
  }
  kv.add_sequence(SequenceId{4}, counted(20), "", true);
  EXPECT_FALSE(kv.grow(SequenceId{4}, 20, copies));
  EXPECT_FALSE(kv.check_alone(1, 20, 5).ok());
  EXPECT_TRUE(kv.check_alone(1, 16, 4).ok());
  kv.free(SequenceId{3});
  ASSERT_TRUE(kv.grow(SequenceId{4}, 16, copies));
  EXPECT_GT(kv.slots().counts().reclaimed_slots, 0);
  kv.inspection().check_invariants();
}

TEST(VirtualKvManager, PagesThatCannotBeCreatedAreAFullPool) {
  VirtualKvConfig config = small();
  config.num_created = 4;
  std::int64_t allowed = 3;
  config.may_create = [&](std::int64_t count) {
    if (count > allowed) return false;
    allowed -= count;
    return true;
  };
  VirtualKvManager kv(config);
  std::vector<BlockCopy> copies;
  EXPECT_EQ(kv.num_blocks(), 16);
  EXPECT_TRUE(kv.check_alone(1, 16, 4).ok());
  EXPECT_FALSE(kv.check_alone(2, 16, 8).ok());
  kv.add_sequence(SequenceId{1}, counted(28), "", true);
  ASSERT_TRUE(kv.grow(SequenceId{1}, 28, copies));
  EXPECT_EQ(allowed, 0);
  kv.add_sequence(SequenceId{2}, counted(4), "", true);
  EXPECT_FALSE(kv.grow(SequenceId{2}, 4, copies));
  kv.free(SequenceId{1});
  EXPECT_TRUE(kv.grow(SequenceId{2}, 4, copies));
  kv.inspection().check_invariants();
}

// Two groups: a page a row for what sees everything, two for a window of 6 tokens.
VirtualKvConfig grouped(std::int32_t num_pages = 64) {
  VirtualKvConfig config = small(num_pages);
  config.pages.groups = {
      {.tokens_per_row = 4, .pages_per_row = 1},
      {.kind = KvKind::window, .window = 6, .tokens_per_row = 4, .pages_per_row = 2},
  };
  config.slots.blocks_per_slot = 3 * 20;
  config.slots.front_batch = 8;
  return config;
}

// Blocks that are shown in the first slot's range of the window, and their first.
std::pair<int, int> shown_of_window(const NaiveMemory& memory) {
  int count = 0, first = -1;
  for (int i = 20; i < 60; ++i) {
    if (memory.at(BlockId{i}) == kNoPage) continue;
    ++count;
    if (first < 0) first = i - 20;
  }
  return {count, first};
}

TEST(VirtualKvManager, WhatAWindowLeavesIsGivenBackAtOnceAndUnmappedInBatches) {
  VirtualKvConfig config = grouped();
  config.slots.map_ahead = false;
  VirtualKvManager kv(config);
  NaiveMemory memory(config.slots);
  std::vector<BlockCopy> copies;
  const auto tokens = counted(80);
  kv.add_sequence(SequenceId{1}, tokens, "", false);
  std::int64_t most_held = 0, unmapped = 0;
  for (std::int32_t end = 4; end <= 80; end += 4) {
    ASSERT_TRUE(kv.grow(SequenceId{1}, end, copies));
    memory.take(kv);
    const KvTable window = kv.tables(SequenceId{1}).more[0];
    for (std::size_t i = 0; i < window.blocks.size(); ++i) {
      EXPECT_EQ(index(window.blocks[i]), 20 + 2 * window.first_row + static_cast<int>(i));
      EXPECT_EQ(memory.at(window.blocks[i]), kv.inspection().pages_of(SequenceId{1}, 1).blocks[i]);
    }
    most_held = std::max(most_held, 64 - kv.num_free_blocks() - end / 4);
    const auto [count, first] = shown_of_window(memory);
    EXPECT_LE(count, std::ssize(window.blocks) + 8 + 2);
    unmapped += first > 0 ? 1 : 0;
    kv.computed(SequenceId{1}, tokens, end);
    kv.inspection().check_invariants();
  }
  EXPECT_LE(most_held, 2 * 4) << "a window of two rows, the one being written, and one for the window's end";
  EXPECT_GT(unmapped, 0);
  EXPECT_GE(shown_of_window(memory).second, 2 * 16 - 8);
  EXPECT_EQ(memory.num_now, 20 * 2 + 4) << "a call a row and range, and one for each batch";
  kv.free(SequenceId{1});
  EXPECT_EQ(kv.num_free_blocks(), 64);
}

TEST(VirtualKvManager, TooFewRegionsCountWhatAWindowKeepsNotWhatItHasLeft) {
  VirtualKvConfig config = grouped();
  config.slots.max_regions = 1 + 2 * pages_for(*config.pages.groups, 80);
  VirtualKvManager kv(config);
  EXPECT_TRUE(kv.check_alone(1, 80, 20).ok());
  EXPECT_FALSE(kv.check_alone(2, 80, 40).ok());
  std::vector<BlockCopy> copies;
  const auto tokens = counted(80);
  kv.add_sequence(SequenceId{1}, tokens, "", false);
  for (std::int32_t done = 0; done < 80;) {
    const std::int32_t next = kv.most_tokens(SequenceId{1}, std::min(80, done + 24));
    ASSERT_GT(next, done);
    ASSERT_TRUE(kv.grow(SequenceId{1}, next, copies));
    kv.computed(SequenceId{1}, tokens, done = next);
    kv.inspection().check_invariants();
  }
}

TEST(VirtualKvManager, AChunkIsCutToThePagesThatCanBeCreated) {
  VirtualKvConfig config = grouped();
  config.num_created = static_cast<std::int32_t>(pages_for(*config.pages.groups, 80));
  config.may_create = [](std::int64_t) { return false; };
  VirtualKvManager kv(config);
  std::vector<BlockCopy> copies;
  const auto tokens = counted(80);
  kv.add_sequence(SequenceId{1}, tokens, "", false);
  for (std::int32_t done = 0; done < 80;) {
    const std::int32_t next = kv.most_tokens(SequenceId{1}, std::min(80, done + 64));
    ASSERT_GT(next, done);
    ASSERT_TRUE(kv.grow(SequenceId{1}, next, copies));
    kv.computed(SequenceId{1}, tokens, done = next);
  }
  kv.inspection().check_invariants();
}

enum class Layers { alike, windows, states };

// Goal: whatever the order of adding, growing, forking, freeing and swapping, every sequence finds its own
// tokens where its table points, through the mappings alone, and the system's count of regions stays below
// the limit. States are in the pages that their table names. Method: a naive address space and a naive store
// of tokens by page, compared after every operation.
std::size_t num_virtual_state_hits = 0;

void compare_virtual(std::uint64_t seed, Layers layers) {
  const bool windows = layers != Layers::alike;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  const std::size_t size = 1 + below(5);
  const std::int32_t num_pages = (windows ? 20 : 6) + static_cast<std::int32_t>(below(windows ? 50 : 20));
  const std::int32_t num_swap = static_cast<std::int32_t>(below(static_cast<std::size_t>(num_pages) + 1));
  VirtualKvConfig config;
  config.pages = {.block_size = static_cast<std::int32_t>(size),
                  .num_blocks = num_pages,
                  .num_swap_blocks = num_swap,
                  .enable_prefix_caching = below(3) != 0,
                  .model_id = "m",
                  .verify_hits = true};
  const bool may_refuse = below(4) == 0;
  if (may_refuse) {
    config.num_created = 1 + static_cast<std::int32_t>(below(static_cast<std::size_t>(num_pages)));
    config.may_create = [&](std::int64_t) { return below(2) == 0; };
  }
  config.slots = {.num_slots = 4 + static_cast<std::int32_t>(below(8)),
                  .blocks_per_slot = 40,
                  .max_regions = below(3) == 0 ? 12 + static_cast<std::int64_t>(below(20)) : 0,
                  .deferred_reclaim = below(3) != 0,
                  .map_ahead = below(3) != 0,
                  .num_eager_blocks = static_cast<std::int32_t>(below(3))};
  if (windows) {
    std::vector<KvGroup>& groups = config.pages.groups.emplace();
    const auto tokens_per_row = static_cast<std::int32_t>(size);
    const bool states = layers == Layers::states;
    if (below(4) != 0)
      groups.push_back(
          {.tokens_per_row = tokens_per_row, .pages_per_row = 1 + static_cast<std::int32_t>(below(2))});
    for (std::size_t i = 0, n = states ? below(2) : 1 + below(2); i < n; ++i)
      groups.push_back({.kind = KvKind::window,
                        .window = 1 + static_cast<std::int32_t>(below(12)),
                        .tokens_per_row = tokens_per_row,
                        .pages_per_row = 1 + static_cast<std::int32_t>(below(3))});
    if (states)
      groups.push_back({.kind = KvKind::state,
                        .tokens_per_row = tokens_per_row,
                        .pages_per_row = 1 + static_cast<std::int32_t>(below(3))});
    config.slots.blocks_per_slot = 0;
    for (const KvGroup& group : token_groups(groups))
      config.slots.blocks_per_slot += 40 * group.pages_per_row;
    config.slots.front_batch = 1 + static_cast<std::int32_t>(below(6));
    if (config.slots.max_regions > 0) config.slots.max_regions *= 3;
  }
  VirtualKvManager kv(config);
  NaiveMemory memory(config.slots);
  std::vector<TokenId> store(static_cast<std::size_t>(num_pages) * size, -1);
  std::vector<TokenId> swap_store(static_cast<std::size_t>(num_swap) * size, -1);
  struct Model {
    std::vector<TokenId> tokens;
    std::size_t computed = 0;
    std::size_t gang = 0;
    bool ran = false;
  };
  std::map<std::uint64_t, Model> model;
  std::uint64_t next_id = 1;
  std::size_t num_gangs = 0;
  // The place of this position in page `page` of a row of the group, through the table and the mappings.
  const auto cell = [&](std::uint64_t id, std::size_t group, std::size_t page,
                        std::size_t position) -> TokenId& {
    const SequenceId sequence{id};
    const KvTable table =
        group == 0 ? KvTable{.blocks = kv.tables(sequence).blocks, .first_row = kv.tables(sequence).first_row}
                   : kv.tables(sequence).more[group - 1];
    const auto per_row = static_cast<std::size_t>(kv.geometry().groups()[group].pages_per_row);
    const bool state = kv.geometry().groups()[group].is_state();
    if (state) position = 0;
    const std::size_t row = position / size - static_cast<std::size_t>(table.first_row);
    const BlockId block = table.blocks[row * per_row + page];
    const BlockId shown = state ? block : memory.at(block);
    return store.at(static_cast<std::size_t>(index(shown)) * size + position % size);
  };
  const auto each_page = [&](auto f) {
    for (std::size_t group = 0; group < kv.geometry().groups().size(); ++group)
      for (std::size_t page = 0; page < static_cast<std::size_t>(kv.geometry().groups()[group].pages_per_row);
           ++page)
        f(group, page);
  };
  const auto any = [&] { return std::next(model.begin(), static_cast<long>(below(model.size()))); };
  const auto move_page = [&](const std::vector<TokenId>& from, std::int32_t from_page,
                             std::vector<TokenId>& to, std::int32_t to_page) {
    std::copy_n(from.begin() + from_page * static_cast<std::int32_t>(size), size,
                to.begin() + to_page * static_cast<std::int32_t>(size));
  };
  for (int step = 0; step < 300; ++step) {
    switch (below(7)) {
      case 0: {
        Model fresh;
        for (std::size_t i = 0, n = 1 + below(14); i < n; ++i)
          fresh.tokens.push_back(static_cast<TokenId>(below(2)));
        fresh.computed =
            static_cast<std::size_t>(kv.add_sequence(SequenceId{next_id}, fresh.tokens, "", below(5) != 0));
        if (layers == Layers::states && fresh.computed > 0) ++num_virtual_state_hits;
        model.emplace(next_id++, std::move(fresh));
        break;
      }
      case 1:
      case 2: {  // a step of several sequences: all decisions first, then what they ask for
        std::vector<BlockCopy> copies;
        std::vector<std::pair<std::uint64_t, std::size_t>> growing;
        for (auto& [id, seq] : model) {
          if (seq.gang != 0 || below(2) == 0 || seq.tokens.size() > 38) continue;
          if (seq.computed == seq.tokens.size()) seq.tokens.push_back(static_cast<TokenId>(below(2)));
          std::size_t target = seq.computed + 1 + below(seq.tokens.size() - seq.computed);
          const bool cut = windows && below(2) == 0;
          if (cut)
            target =
                static_cast<std::size_t>(kv.most_tokens(SequenceId{id}, static_cast<std::int32_t>(target)));
          if (target == seq.computed) continue;
          const std::int64_t needed = kv.blocks_to_grow(SequenceId{id}, static_cast<std::int32_t>(target));
          const std::int64_t before = kv.num_free_blocks();
          const bool ok = kv.grow(SequenceId{id}, static_cast<std::int32_t>(target), copies);
          // A published block that is copied, and that nobody else uses, is free to be evicted then.
          if (ok && layers == Layers::states)
            ASSERT_GE(kv.num_free_blocks(), before - needed);
          else
            ASSERT_EQ(kv.num_free_blocks(), ok ? before - needed : before);
          if (needed > before) ASSERT_FALSE(ok);
          if (cut && seq.ran) ASSERT_TRUE(ok) << "it was told how far it gets";
          if (ok) growing.emplace_back(id, target);
        }
        std::vector<StateCopy> state_copies;
        for (std::size_t i = 0; i < growing.size(); ++i)
          kv.copy_states(SequenceId{growing[i].first}, static_cast<std::int32_t>(i),
                         static_cast<std::int32_t>(growing[i].second), state_copies);
        memory.take(kv);
        for (const BlockCopy& copy : copies) move_page(store, index(copy.from), store, index(copy.to));
        for (const StateCopy& copy : state_copies) {
          const Model& seq = model.at(growing[static_cast<std::size_t>(copy.sequence)].first);
          for (std::int32_t i = 0; i < copy.count; ++i)
            store.at(static_cast<std::size_t>(index(copy.page) + i) * size) =
                state_after(seq.tokens, static_cast<std::size_t>(copy.position));
        }
        for (const auto& [id, target] : growing) {
          Model& seq = model.at(id);
          seq.ran = true;
          for (; seq.computed < target; ++seq.computed) {
            each_page([&](std::size_t group, std::size_t page) {
              cell(id, group, page, seq.computed) = kv.geometry().groups()[group].is_state()
                                                        ? state_after(seq.tokens, seq.computed + 1)
                                                        : seq.tokens[seq.computed];
            });
          }
          kv.computed(SequenceId{id}, seq.tokens, static_cast<std::int32_t>(target));
        }
        break;
      }
      case 3: {
        if (model.empty() || model.size() > 12) break;
        const auto parent = any();
        if (parent->second.gang != 0) break;
        Model child = parent->second;
        child.ran = false;
        if (below(2) == 0) {
          kv.sharing().fork(SequenceId{parent->first}, SequenceId{next_id});
        } else {
          child.computed = static_cast<std::size_t>(
              kv.sharing().fork_prefix(SequenceId{parent->first}, SequenceId{next_id},
                                       static_cast<std::int32_t>(below(parent->second.computed + 1))));
        }
        model.emplace(next_id++, std::move(child));
        break;
      }
      case 4: {
        if (model.empty()) break;
        const auto it = any();
        kv.free(SequenceId{it->first});
        model.erase(it);
        break;
      }
      case 5: {
        std::vector<SequenceId> group;
        for (const auto& [id, seq] : model) {
          if (below(3) == 0 && seq.gang == 0) group.push_back(SequenceId{id});
        }
        std::vector<SwapCopy> copies;
        if (!kv.swap().swap_out(group, copies)) break;
        ++num_gangs;
        for (const SequenceId id : group) model.at(static_cast<std::uint64_t>(id)).gang = num_gangs;
        for (const SwapCopy& copy : copies)
          move_page(store, index(copy.block), swap_store, static_cast<std::int32_t>(copy.swap_block));
        break;
      }
      case 6: {
        if (num_gangs == 0) break;
        const std::size_t gang = 1 + below(num_gangs);
        std::vector<SequenceId> group;
        for (const auto& [id, seq] : model) {
          if (seq.gang == gang) group.push_back(SequenceId{id});
        }
        std::vector<SwapCopy> copies;
        if (group.empty() || !kv.swap().swap_in(group, copies)) break;
        for (const SequenceId id : group) {
          model.at(static_cast<std::uint64_t>(id)).gang = 0;
          model.at(static_cast<std::uint64_t>(id)).ran = false;  // it gets a slot when it grows
        }
        for (const SwapCopy& copy : copies)
          move_page(swap_store, static_cast<std::int32_t>(copy.swap_block), store, index(copy.block));
        break;
      }
    }
    kv.inspection().check_invariants();
    if (config.slots.max_regions > 0) ASSERT_LE(memory.regions(), config.slots.max_regions);
    for (const auto& [id, seq] : model) {
      if (seq.gang != 0 || !seq.ran) continue;
      each_page([&](std::size_t group, std::size_t page) {
        const KvGroup& of = kv.geometry().groups()[group];
        if (of.is_state()) {
          ASSERT_EQ(cell(id, group, page, 0), state_after(seq.tokens, seq.computed)) << "sequence " << id;
          return;
        }
        const std::size_t seen =
            of.kind == KvKind::full ? seq.computed : static_cast<std::size_t>(of.window) - 1;
        for (std::size_t i = seq.computed - std::min(seen, seq.computed); i < seq.computed; ++i)
          ASSERT_EQ(cell(id, group, page, i), seq.tokens[i]) << "sequence " << id << ", group " << group;
      });
    }
  }
  for (const auto& [id, seq] : model) kv.free(SequenceId{id});
  ASSERT_EQ(kv.num_free_blocks(), num_pages);
  ASSERT_EQ(kv.swap().num_free_swap_blocks(), num_swap);
}

TEST(VirtualKvManagerProperty, EverySequenceFindsItsOwnTokens) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    compare_virtual(seed, Layers::alike);
    if (HasFatalFailure()) return;
  }
}

TEST(VirtualKvManagerProperty, EverySequenceFindsWhatItsWindowsSee) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    compare_virtual(seed, Layers::windows);
    if (HasFatalFailure()) return;
  }
}

TEST(VirtualKvManagerProperty, EverySequenceFindsItsState) {
  num_virtual_state_hits = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    compare_virtual(seed, Layers::states);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(num_virtual_state_hits, 100u);
}

}  // namespace
}  // namespace pagoda
