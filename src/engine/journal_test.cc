// Goal: the journal keeps the latest events with their steps and says what it has lost; what the engine does
// to blocks is in it; and it takes no memory that its budget does not have.
#include "engine/journal.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

TEST(Journal, KeepsTheLatestAndShowsWhatIsGone) {
  MemoryBudget budget(1000);
  const auto account = *budget.add_account("journal", 0, 1000);
  EXPECT_EQ(Journal::create(1000, budget, account).error().code(), StatusCode::resource_exhausted);
  {
    auto journal = *Journal::create(4, budget, account);
    EXPECT_EQ(budget.used(), static_cast<std::int64_t>(4 * sizeof(Journal::Entry)));
    EXPECT_TRUE(journal->read(0, 10).empty());
    for (std::int32_t i = 0; i < 6; ++i) {
      journal->on_scheduled(10 + i, {}, {});
      journal->on_pool_event({.kind = PoolEventKind::evict, .block = i});
    }
    EXPECT_EQ(journal->num_recorded(), 6);
    const auto all = journal->read(0, 10);
    ASSERT_EQ(all.size(), 4u);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].number, static_cast<std::int64_t>(i) + 2);
      EXPECT_EQ(all[i].step, static_cast<std::int64_t>(i) + 12);
      EXPECT_EQ(all[i].event.block, static_cast<std::int32_t>(i) + 2);
    }
    ASSERT_EQ(journal->read(4, 1).size(), 1u);
    EXPECT_EQ(journal->read(4, 1)[0].number, 4);
    EXPECT_TRUE(journal->read(6, 1).empty());
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(Journal, HoldsWhatAnEngineDoesToBlocks) {
  for (const PreemptionMode mode : {PreemptionMode::swap, PreemptionMode::recompute}) {
    MemoryBudget budget(10'000'000);
    auto journal = *Journal::create(10'000, budget, *budget.add_account("journal", 0, 10'000'000));
    fake::Options options;
    options.num_blocks = 14;
    options.num_swap_blocks = 14;
    options.engine.preemption_mode = mode;
    fake::Rig rig(options);
    rig.core->add_observer(*journal);
    std::vector<Request> requests;
    std::vector<std::shared_ptr<fake::Collector>> sinks;
    for (std::uint64_t id = 1; id <= 3; ++id) {
      requests.push_back(fake::make_request(id, {static_cast<TokenId>(id), 2, 3, 4, 5, 6}, 24));
      if (id == 1) requests.back().sampling.n = requests.back().sampling.best_of = 2;
      if (id == 1) requests.back().sampling.temperature = 1;
      requests.back().sampling.seed = id;
      sinks.push_back(rig.submit(requests.back()));
    }
    rig.run_all();
    for (std::size_t i = 0; i < requests.size(); ++i)
      fake::expect_as_reference(requests[i], *sinks[i], options.engine.max_model_len);
    const SchedulerCounts counts = rig.core->scheduler().counts();
    std::map<PoolEventKind, std::int64_t> seen;
    std::int64_t step = 0;
    for (const Journal::Entry& entry : journal->read(0, 10'000)) {
      ++seen[entry.event.kind];
      EXPECT_LE(step, entry.step);
      step = entry.step;
    }
    EXPECT_LE(step, rig.core->steps().num_steps());
    EXPECT_EQ(seen[PoolEventKind::fork], 1);
    EXPECT_EQ(seen[PoolEventKind::copy], rig.runner->num_copies);
    EXPECT_GT(rig.runner->num_copies, 0);
    EXPECT_GT(seen[PoolEventKind::preempt], 0);
    EXPECT_GT(counts.preemptions, 0);
    EXPECT_EQ(seen[PoolEventKind::swap_out], counts.blocks_swapped_out);
    EXPECT_EQ(seen[PoolEventKind::swap_in], counts.blocks_swapped_in);
    if (mode == PreemptionMode::swap) EXPECT_GT(counts.blocks_swapped_in, 0);
  }
}

}  // namespace
}  // namespace pagoda
