#include "kv_cache/promises.h"

#include <gtest/gtest.h>

#include "kv_cache/tables_test_support.h"

namespace pagoda {
namespace {

// The most pages at a time, beyond those it holds, on the way to `num_tokens` by `chunk` tokens a step.
std::int64_t walked(const std::vector<KvGroup>& groups, const BlockTable& table, std::int32_t num_tokens,
                    std::int32_t chunk) {
  std::vector<GroupRows> rows = table.groups;
  std::int64_t held = 0, peak = 0;
  for (std::size_t i = 0; i < groups.size(); ++i)
    held += std::int64_t{rows[i].end - rows[i].first} * groups[i].pages_per_row;
  for (std::int32_t computed = table.num_computed; computed < num_tokens;) {
    computed = std::min(num_tokens, computed + chunk);
    std::int64_t now = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      rows[i].end = std::max(rows[i].end, static_cast<std::int32_t>(groups[i].rows_for(computed)));
      now += std::int64_t{rows[i].end - rows[i].first} * groups[i].pages_per_row;
    }
    peak = std::max(peak, now - held);
    for (std::size_t i = 0; i < groups.size(); ++i)
      rows[i].first = std::max(rows[i].first, std::min(groups[i].first_kept_row(computed), rows[i].end));
  }
  return peak;
}

TEST(Promises, SetAsideWhatIsMissing) {
  testing::Tables of(4, one_full_group(4), 10);
  Promises promises(of.geometry, of.tables, of.pool);
  BlockTable& a = of.add();
  BlockTable& b = of.add();
  EXPECT_EQ(promises.needed(a, 17, 4), 5);
  EXPECT_TRUE(promises.make(a, 17, 4, of.pool.num_free()));
  EXPECT_EQ(promises.set_aside(), 5);
  EXPECT_FALSE(promises.make(b, 24, 4, of.pool.num_free())) << "6 more than 5";
  EXPECT_EQ(promises.most_tokens(b, 24, of.pool.num_free()), 20);
  of.compute(a, 8);
  promises.computed(a);
  EXPECT_EQ(promises.set_aside(), 3);
  of.compute(a, 17);
  promises.computed(a);
  EXPECT_EQ(promises.set_aside(), 0);
}

// Goal: a prompt that was let in can finish, whatever others take in the meantime. Method: others take all
// that they may; the naive walk above says what the prompt takes at most.
void compare_promises(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int32_t>(rng() % n); };
  const std::int32_t size = 1 + below(5);
  const bool windows = below(2) == 0;
  testing::Tables of(size, testing::draw_token_groups(rng, size, windows, below(3) == 0), 20 + below(60));
  Promises promises(of.geometry, of.tables, of.pool);
  struct Prompt {
    BlockTable* table;
    std::int32_t num_tokens, chunk;
  };
  std::vector<Prompt> prompts;
  BlockTable& greedy = of.add();
  for (int step = 0; step < 120; ++step) {
    switch (below(3)) {
      case 0: {
        BlockTable& table = of.add();
        const Prompt prompt{.table = &table, .num_tokens = 1 + below(60), .chunk = 1 + below(12)};
        const std::int64_t needed = promises.needed(table, prompt.num_tokens, prompt.chunk);
        ASSERT_GE(needed, walked(of.geometry.groups(), table, prompt.num_tokens, prompt.chunk));
        if (!windows) ASSERT_EQ(needed, walked(of.geometry.groups(), table, prompt.num_tokens, prompt.chunk));
        const bool fits = promises.set_aside() + needed <= of.pool.num_free();
        ASSERT_EQ(promises.make(table, prompt.num_tokens, prompt.chunk, of.pool.num_free()), fits);
        if (fits) prompts.push_back(prompt);
        break;
      }
      case 1: {  // somebody without a promise takes what there is
        const std::int32_t wanted = greedy.num_computed + 1 + below(20);
        const std::int32_t most = promises.most_tokens(greedy, wanted, of.pool.num_free());
        if (most > greedy.num_computed) of.compute(greedy, most);
        if (below(3) != 0) break;
        of.tables.release_all(greedy);
        greedy = {};
        greedy.groups.resize(of.geometry.groups().size());
        break;
      }
      case 2: {  // a prompt gets on
        if (prompts.empty()) break;
        const std::size_t i = static_cast<std::size_t>(below(prompts.size()));
        const Prompt prompt = prompts[i];
        const std::int32_t next = std::min(prompt.num_tokens, prompt.table->num_computed + prompt.chunk);
        ASSERT_TRUE(promises.can_grow(*prompt.table, next, of.pool.num_free()));
        ASSERT_LE(of.tables.pages_to_grow(*prompt.table, next), of.pool.num_free());
        of.compute(*prompt.table, next);
        promises.computed(*prompt.table);
        if (next < prompt.num_tokens) break;
        promises.end(*prompt.table);
        of.tables.release_all(*prompt.table);
        *prompt.table = {};
        prompt.table->groups.resize(of.geometry.groups().size());
        prompts.erase(prompts.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    }
    ASSERT_LE(promises.set_aside(), of.pool.num_free());
  }
}

TEST(PromisesProperty, AreKept) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    compare_promises(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace pagoda
