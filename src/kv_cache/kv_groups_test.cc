// The gain by KV groups, in figures: the shape of Gemma 3 (one layer in six sees everything, the others the
// last 512 tokens) against the same layers all seeing everything, in pools of the same bytes.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "kv_cache/paged_kv_manager.h"

namespace pagoda {
namespace {

constexpr std::int32_t kRow = 16, kChunk = 256;

std::vector<KvGroup> windows(std::int32_t window = 512) {
  return {{.pages_per_row = 1}, {.kind = KvKind::window, .window = window, .pages_per_row = 5}};
}
// The same layers, and pages of the same size.
std::vector<KvGroup> all_see_everything() { return {{.pages_per_row = 6}}; }

PagedKvManager manager(std::vector<KvGroup> groups, std::int32_t num_pages, std::int32_t num_swap = 0) {
  return PagedKvManager({.block_size = kRow,
                         .num_blocks = num_pages,
                         .num_swap_blocks = num_swap,
                         .model_id = "m",
                         .verify_hits = true,
                         .groups = std::move(groups)});
}

// As Qwen3.5: one layer of four sees everything, the others keep a state, here of 20 pages.
std::vector<KvGroup> states() {
  return {{.pages_per_row = 1}, {.kind = KvKind::state, .pages_per_row = 20, .state_bytes = 1}};
}

std::vector<TokenId> text(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 rng(seed);
  std::vector<TokenId> out(count);
  for (TokenId& token : out) token = static_cast<TokenId>(rng() % 1000);
  return out;
}

// Lets the sequence in and computes all of `tokens`, chunk by chunk; false: there is no room for it now.
// `most` is told the largest number of pages in use on the way.
bool prefill(PagedKvManager& kv, SequenceId id, const std::vector<TokenId>& tokens,
             std::int64_t* most = nullptr) {
  std::vector<BlockCopy> copies;
  std::int32_t computed = kv.add_sequence(id, tokens, "", true);
  const auto length = static_cast<std::int32_t>(tokens.size());
  if (!kv.promise(id, length, kChunk) && !kv.promise(id, length, 1)) {
    kv.free(id);
    return false;
  }
  while (computed < length) {
    const std::int32_t next = kv.most_tokens(id, std::min(length, computed + kChunk));
    EXPECT_GE(next, std::min(length, computed + kRow)) << "16 tokens at least";
    EXPECT_TRUE(kv.grow(id, next, copies));
    std::vector<StateCopy> passed;
    kv.copy_states(id, 0, next, passed);
    if (most != nullptr) *most = std::max(*most, kv.num_blocks() - kv.num_free_blocks());
    kv.computed(id, tokens, next);
    kv.inspection().check_invariants();
    computed = next;
  }
  return true;
}

void decode(PagedKvManager& kv, SequenceId id, const std::vector<TokenId>& tokens, std::int32_t from) {
  std::vector<BlockCopy> copies;
  for (std::int32_t i = from + 1; i <= static_cast<std::int32_t>(tokens.size()); ++i) {
    ASSERT_TRUE(kv.grow(id, i, copies));
    kv.computed(id, tokens, i);
  }
}

TEST(KvGroups, EightThousandTokensTakeLessThanAThird) {
  PagedKvManager kv = manager(windows(), 6000);
  const std::vector<TokenId> tokens = text(1, 8192);
  ASSERT_TRUE(prefill(kv, SequenceId{1}, tokens));
  const std::int64_t held = kv.num_blocks() - kv.num_free_blocks();
  const std::int64_t full = 6 * 8192 / kRow;
  std::printf("8,192 tokens: %lld of %lld pages, %.3f\n", static_cast<long long>(held),
              static_cast<long long>(full), static_cast<double>(held) / static_cast<double>(full));
  EXPECT_LT(static_cast<double>(held), 0.3 * static_cast<double>(full));
  const KvTable window = kv.inspection().pages_of(SequenceId{1}, 1);
  EXPECT_EQ(window.first_row, (8192 - 512) / kRow);
  kv.free(SequenceId{1});
  EXPECT_EQ(kv.num_free_blocks(), kv.num_blocks());
}

// A pool of the bytes that 2,048 tokens take if all layers see everything.
TEST(KvGroups, APoolOf2048TokensHoldsSeveralTimesAsMany) {
  const std::int32_t pages = 6 * 2048 / kRow;
  PagedKvManager kv = manager(windows(), pages);
  const std::int64_t longest = kv.geometry().tokens_alone(pages);
  std::printf("alone: %lld tokens\n", static_cast<long long>(longest));
  EXPECT_GT(longest, 4 * 2048);
  EXPECT_FALSE(kv.geometry().pages_alone(longest + kRow, 1, 0, false) <= pages);
  // A prompt of that length is let in alone, and finishes in chunks cut to what there is.
  std::int64_t most = 0;
  const std::vector<TokenId> tokens = text(2, static_cast<std::size_t>(longest));
  ASSERT_TRUE(prefill(kv, SequenceId{1}, tokens, &most));
  EXPECT_LE(most, pages);
  kv.free(SequenceId{1});
  kv.sharing().clear_prefix_cache();
  // And where eight such pools hold two sequences of 8,192 tokens with full attention, with windows they hold
  // several times as many.
  const auto together = [&](std::vector<KvGroup> groups) {
    PagedKvManager pool = manager(std::move(groups), 8 * pages);
    std::uint64_t count = 0;
    while (count < 100 && prefill(pool, SequenceId{count + 1}, text(100 + count, 8192))) ++count;
    return count;
  };
  const std::uint64_t few = together(all_see_everything()), many = together(windows());
  std::printf("sequences of 8,192 tokens: %llu with full attention, %llu with windows\n",
              static_cast<unsigned long long>(few), static_cast<unsigned long long>(many));
  EXPECT_EQ(few, 2u);
  EXPECT_GE(many, 4 * few);
}

// Conversations take turns; a turn's prompt is all that was said and more. `forgotten` tokens of each
// prompt's end come back as others, as templates do that drop a turn's thinking. Tokens found in the cache.
struct Trace {
  std::int64_t asked = 0, found = 0;
};
Trace converse(std::vector<KvGroup> groups, std::int32_t num_pages, std::int32_t forgotten) {
  PagedKvManager kv = manager(std::move(groups), num_pages);
  std::mt19937_64 rng(7);
  const auto below = [&](std::uint64_t n) { return rng() % n; };
  const std::vector<TokenId> system = text(1, 700);
  std::vector<std::vector<TokenId>> said(12, system);
  Trace out;
  for (std::uint64_t turn = 0; turn < 120; ++turn) {
    std::vector<TokenId>& history = said[below(said.size())];
    if (history.size() > 6000) history = system;  // a new conversation
    const std::vector<TokenId> more = text(1000 + turn, 40 + below(300));
    history.insert(history.end(), more.begin(), more.end());
    const SequenceId id{turn + 1};
    const std::int64_t before = kv.inspection().prefix_cache_stats().hits;
    const auto prompt = static_cast<std::int32_t>(history.size());
    if (!prefill(kv, id, history)) ADD_FAILURE() << "no room";
    out.asked += prompt;
    out.found += kv.inspection().prefix_cache_stats().hits - before;
    const std::vector<TokenId> answer = text(5000 + turn, 20 + below(200));
    history.insert(history.end(), answer.begin(), answer.end());
    decode(kv, id, history, prompt);
    kv.free(id);
    if (forgotten == 0) continue;
    history.resize(static_cast<std::size_t>(prompt - forgotten));
    history.insert(history.end(), answer.begin(), answer.end());
  }
  kv.inspection().check_invariants();
  return out;
}

TEST(KvGroups, ConversationsFindAsMuchOfTheirPrefixWithWindows) {
  for (const std::int32_t forgotten : {0, 5}) {
    for (const std::int32_t pages : {60'000, 6'000}) {  // all that is said; a part of it
      const Trace full = converse(all_see_everything(), pages, forgotten);
      const Trace windowed = converse(windows(), pages, forgotten);
      std::printf("%d pages, %d tokens forgotten: of %lld prompt tokens %lld found, with windows %lld\n",
                  pages, forgotten, static_cast<long long>(full.asked), static_cast<long long>(full.found),
                  static_cast<long long>(windowed.found));
      ASSERT_EQ(full.asked, windowed.asked);
      EXPECT_GT(static_cast<double>(full.found), 0.1 * static_cast<double>(full.asked));
      EXPECT_GE(static_cast<double>(windowed.found), 0.95 * static_cast<double>(full.found));
    }
  }
}

// The conversations as above, in pools that hold all that is said, or a part of it; against the same layers
// all seeing everything.
TEST(KvGroups, ConversationsFindMostOfTheirPrefixWithStates) {
  for (const std::int32_t forgotten : {0, 5}) {
    for (const std::int32_t pages : {12'000, 2'400}) {
      const Trace full = converse({{.pages_per_row = 4}}, pages, forgotten);
      const Trace kept = converse(states(), pages, forgotten);
      std::printf("%d pages, %d tokens forgotten: of %lld prompt tokens %lld found, with states %lld: %.3f\n",
                  pages, forgotten, static_cast<long long>(full.asked), static_cast<long long>(full.found),
                  static_cast<long long>(kept.found),
                  static_cast<double>(kept.found) / static_cast<double>(full.found));
      ASSERT_EQ(full.asked, kept.asked);
      EXPECT_GE(static_cast<double>(kept.found), 0.8 * static_cast<double>(full.found));
    }
  }
}

// A state is found at its own length: at a sequence's end whatever that is, and where a step copied it.
TEST(KvGroups, AStateIsFoundAtItsOwnLength) {
  PagedKvManager kv = manager(states(), 1000);
  std::vector<TokenId> tokens = text(8, 403);
  ASSERT_TRUE(prefill(kv, SequenceId{1}, tokens));
  // The last border that is 16 tokens or more before the prompt's end.
  EXPECT_EQ(kv.add_sequence(SequenceId{2}, tokens, "", true), 384);
  kv.free(SequenceId{2});
  kv.free(SequenceId{1});
  EXPECT_EQ(kv.num_free_blocks(), kv.num_blocks());
  EXPECT_EQ(kv.add_sequence(SequenceId{3}, tokens, "", true), 384) << "a token has to be computed";
  kv.free(SequenceId{3});
  tokens.push_back(1);
  EXPECT_EQ(kv.add_sequence(SequenceId{4}, tokens, "", true), 403) << "the end";
  EXPECT_EQ(kv.blocks_to_grow(SequenceId{4}, 404), 1 + 20) << "both are copied";
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.grow(SequenceId{4}, 404, copies));
  EXPECT_EQ(copies.size(), 21u);
  kv.computed(SequenceId{4}, tokens, 404);
  tokens.resize(300);
  EXPECT_EQ(kv.add_sequence(SequenceId{5}, tokens, "", true), 0) << "none there";
  kv.free(SequenceId{5});
  ASSERT_TRUE(prefill(kv, SequenceId{6}, tokens));  // a branch, which its visitor keeps
  tokens.push_back(2);
  EXPECT_EQ(kv.add_sequence(SequenceId{7}, tokens, "", true), 288);
  kv.free(SequenceId{7});
  kv.free(SequenceId{6});
  kv.free(SequenceId{4});
  kv.inspection().check_invariants();
  EXPECT_EQ(kv.num_free_blocks(), kv.num_blocks());
}

// States may take a quarter of the pool: of a conversation's the last stays longest.
TEST(KvGroups, StatesHaveABudget) {
  PagedKvManager kv = manager(states(), 400);  // room for five
  std::vector<std::vector<TokenId>> said;
  for (std::uint64_t i = 0; i < 4; ++i) {
    said.push_back(text(20 + i, 30));
    for (std::uint64_t turn = 0; turn < 3; ++turn) {
      const SequenceId id{10 * i + turn + 1};
      ASSERT_TRUE(prefill(kv, id, said.back()));
      kv.free(id);
      kv.inspection().check_invariants();
      said.back().push_back(1);
    }
  }
  for (const auto& tokens : said) {
    EXPECT_EQ(kv.add_sequence(SequenceId{99}, tokens, "", true), 32);
    kv.free(SequenceId{99});
  }
  EXPECT_LE(kv.parts().pool.num_cached(), 100 + 4 * 3 * 3);
}

// A hit needs all rows: without the rows of the window, full ones are worth nothing.
TEST(KvGroups, AHitNeedsTheWindowToo) {
  PagedKvManager kv = manager(windows(32), 1000);
  const std::vector<TokenId> tokens = text(3, 400);
  ASSERT_TRUE(prefill(kv, SequenceId{1}, tokens));
  // Published so far: the last border that is 16 tokens or more before the prompt's end.
  EXPECT_EQ(kv.add_sequence(SequenceId{2}, tokens, "", true), 384);
  kv.free(SequenceId{2});
  const std::vector<TokenId> half(tokens.begin(), tokens.begin() + 200);
  EXPECT_EQ(kv.add_sequence(SequenceId{3}, half, "", true), 0) << "no anchor there";
  kv.free(SequenceId{3});
  // A sequence that computes past the branch makes it an anchor.
  ASSERT_TRUE(prefill(kv, SequenceId{4}, half));
  EXPECT_EQ(kv.add_sequence(SequenceId{5}, half, "", true), 192);
  kv.free(SequenceId{5});
  kv.free(SequenceId{4});
  kv.free(SequenceId{1});
  EXPECT_EQ(kv.add_sequence(SequenceId{6}, tokens, "", true), 384)
      << "the longest that leaves a token to compute";
  kv.free(SequenceId{6});
  EXPECT_EQ(kv.num_free_blocks(), kv.num_blocks());
}

// Oldest first, from a chain's end: a newer conversation does not cost an older one its window rows first.
TEST(KvGroups, EvictionTakesAChainFromItsEndWithItsWindow) {
  PagedKvManager kv = manager(windows(32), 120);
  const std::vector<TokenId> old = text(4, 160), young = text(5, 160);
  ASSERT_TRUE(prefill(kv, SequenceId{1}, old));
  kv.free(SequenceId{1});
  ASSERT_TRUE(prefill(kv, SequenceId{2}, young));
  kv.free(SequenceId{2});
  std::vector<BlockCopy> copies;
  std::int32_t before = 1000;
  for (std::uint64_t taken = 0; taken < 100; ++taken) {
    kv.add_sequence(SequenceId{100 + taken}, {}, "", false);
    if (!kv.grow(SequenceId{100 + taken}, 1, copies)) break;
    kv.inspection().check_invariants();
    // Asking renews what is found: the young one stays the newer.
    const std::int32_t old_found = kv.add_sequence(SequenceId{4}, old, "", true);
    kv.free(SequenceId{4});
    const std::int32_t young_found = kv.add_sequence(SequenceId{3}, young, "", true);
    kv.free(SequenceId{3});
    EXPECT_LE(old_found, before) << "never more than before";
    before = old_found;
    if (old_found > 0) {
      EXPECT_EQ(young_found, 144);
    }
  }
  EXPECT_EQ(before, 0);
}

TEST(KvGroups, SwappingMovesWhatIsKept) {
  PagedKvManager kv = manager(windows(32), 200, 200);
  const std::vector<TokenId> tokens = text(6, 320);
  ASSERT_TRUE(prefill(kv, SequenceId{1}, tokens));
  const SequenceId ids[] = {SequenceId{1}};
  const SwapCost cost = kv.swap().swap_cost(ids);
  EXPECT_EQ(cost.pages, 320 / kRow + 2 * 5);
  EXPECT_EQ(cost.tokens, 320);
  std::vector<SwapCopy> out, in;
  ASSERT_TRUE(kv.swap().swap_out(ids, out));
  EXPECT_EQ(std::ssize(out), cost.pages);
  ASSERT_TRUE(kv.swap().swap_in(ids, in));
  EXPECT_EQ(std::ssize(in), cost.pages);
  EXPECT_EQ(kv.inspection().pages_of(SequenceId{1}, 1).first_row, (320 - 32) / kRow);
  kv.inspection().check_invariants();
}

TEST(KvGroups, NoGroupAtAllIsAPool) {
  PagedKvManager kv(
      {.block_size = 16, .num_blocks = 4, .enable_prefix_caching = false, .groups = std::vector<KvGroup>{}});
  std::vector<BlockCopy> copies;
  EXPECT_EQ(kv.add_sequence(SequenceId{1}, text(7, 100), "", true), 0);
  ASSERT_TRUE(kv.promise(SequenceId{1}, 100, 100));
  ASSERT_TRUE(kv.grow(SequenceId{1}, 100, copies));
  kv.computed(SequenceId{1}, text(7, 100), 100);
  EXPECT_TRUE(kv.tables(SequenceId{1}).blocks.empty());
  EXPECT_EQ(kv.geometry().pages_alone(1 << 20, 1, 0, false), 0);
  EXPECT_EQ(kv.num_free_blocks(), 4);
  kv.inspection().check_invariants();
  kv.free(SequenceId{1});
}

}  // namespace
}  // namespace pagoda
