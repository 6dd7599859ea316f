#include "kv_cache/prefix_cache.h"

#include <gtest/gtest.h>

#include "kv_cache/tables_test_support.h"

namespace pagoda {
namespace {

// The cache with all that it works on, in a pool that evicts nothing.
struct Caching {
  Caching(std::int32_t size, std::vector<KvGroup> groups)
      : of(size, std::move(groups), kNumBlocks),
        prefixes({.model_id = "m", .block_size = size, .num_blocks = kNumBlocks, .verify_hits = true},
                 of.pool),
        cache(of.geometry, of.tables, prefixes,
              of.geometry.has_states()
                  ? &states.emplace(of.geometry, of.tables, prefixes, of.pool, kNumBlocks)
                  : nullptr,
              of.pool) {}
  static constexpr std::int32_t kNumBlocks = 4000;

  testing::Tables of;
  PrefixIndex prefixes;
  std::optional<StateCache> states;
  PrefixCache cache;
};

// Goal: a prompt begins with as much of what earlier ones have left as can be used at all. Method: a list of
// texts, with the lengths at which each may be gone on from: every row's border where all groups see
// everything, and with states the lengths at which the sequence had one kept.
void compare_cache(std::uint64_t seed, bool with_states) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  const std::int32_t size = 1 + below(5);
  Caching with(size, testing::draw_token_groups(rng, size, false, with_states));
  struct Left {
    std::vector<TokenId> tokens;
    std::vector<std::int32_t> lengths;
  };
  std::vector<Left> texts;
  for (int round = 0; round < 12; ++round) {
    std::vector<TokenId> tokens;
    if (!texts.empty() && below(3) != 0) {  // it goes on from an earlier one, or leaves it
      tokens = texts[static_cast<std::size_t>(below(texts.size()))].tokens;
      tokens.resize(tokens.size() - static_cast<std::size_t>(below(tokens.size())));
    }
    for (std::int32_t i = 1 + below(10); i > 0; --i) tokens.push_back(below(2));
    KvSequence sequence;
    sequence.table.groups.resize(with.of.geometry.groups().size());
    with.cache.begin(sequence, tokens, "");
    with.cache.map(sequence, tokens);
    std::int32_t best = 0;
    for (const Left& text : texts) {
      for (const std::int32_t length : text.lengths) {
        if (length < std::ssize(tokens) &&
            std::equal(tokens.begin(), tokens.begin() + length, text.tokens.begin()))
          best = std::max(best, length);
      }
    }
    ASSERT_EQ(sequence.table.num_computed, best) << "round " << round;
    Left left;
    while (sequence.table.num_computed < std::ssize(tokens)) {
      const auto next = static_cast<std::int32_t>(
          std::min<std::int64_t>(std::ssize(tokens), sequence.table.num_computed + 1 + below(7)));
      std::vector<BlockCopy> copies;
      with.of.grow(sequence.table, next, copies);
      std::vector<StateCopy> state_copies;
      if (with_states) {
        with.states->copy_states(sequence, 0, next, [](std::int64_t) { return true; }, state_copies);
        for (const StateCopy& copy : state_copies) left.lengths.push_back(copy.position);
      }
      with.of.tables.set_lengths(sequence.table, next, sequence.table.num_tokens);
      with.cache.publish(sequence, tokens);
    }
    if (with_states)
      left.lengths.push_back(static_cast<std::int32_t>(tokens.size()));
    else
      for (std::int32_t end = size; end <= std::ssize(tokens); end += size) left.lengths.push_back(end);
    left.tokens = std::move(tokens);
    texts.push_back(std::move(left));
    with.of.tables.leave_all(sequence.table);
    with.cache.release(sequence);
    with.of.pool.check_invariants();
    if (with_states) with.states->check_invariants();
    ASSERT_EQ(with.of.pool.num_free(), Caching::kNumBlocks) << "nobody holds anything";
  }
}

TEST(PrefixCacheProperty, FindsTheLongestRowsOfAText) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    compare_cache(seed, false);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(StateCacheProperty, FindsTheLongestKeptState) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    compare_cache(seed, true);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(StateCache, KeepsAQuarterOfThePoolAtMost) {
  constexpr std::int32_t kSize = 4, kNumBlocks = 40;
  testing::Tables of(kSize, {{.tokens_per_row = kSize}, {.kind = KvKind::state, .tokens_per_row = kSize}},
                     kNumBlocks);
  PrefixIndex prefixes({.model_id = "m", .block_size = kSize, .num_blocks = kNumBlocks}, of.pool);
  StateCache states(of.geometry, of.tables, prefixes, of.pool, kNumBlocks);
  PrefixCache cache(of.geometry, of.tables, prefixes, &states, of.pool);
  for (TokenId first = 0; first < 30; ++first) {
    const std::vector<TokenId> tokens = {first, 1, 2};
    KvSequence sequence;
    sequence.table.groups.resize(2);
    cache.begin(sequence, tokens, "");
    std::vector<BlockCopy> copies;
    of.grow(sequence.table, 3, copies);
    of.tables.set_lengths(sequence.table, 3, 3);
    cache.publish(sequence, tokens);
    of.tables.leave_all(sequence.table);
    cache.release(sequence);
    states.check_invariants();
  }
  const auto hit = [&](TokenId first) {
    KvSequence sequence;
    sequence.table.groups.resize(2);
    const std::vector<TokenId> tokens = {first, 1, 2, 3};
    cache.begin(sequence, tokens, "");
    cache.map(sequence, tokens);
    return sequence.table.num_computed;
  };
  EXPECT_EQ(hit(0), 0) << "the oldest went";
  EXPECT_EQ(hit(29), 3);
}

}  // namespace
}  // namespace pagoda
