// Goal: whatever goes wrong and in whatever mode, every arrival ends exactly once and no invariant breaks.
// Method: thousands of seeds, each an engine of its own; a failing one is named and reproduces with
// `pagoda simulate --fault-runs 1 --fault-seed N`.
#include "sim/fault_run.h"

#include <cstdlib>

#include "cli/simulate/simulation_setup.h"
#include "sim/test_support.h"

namespace pagoda {
namespace {

constexpr std::uint64_t kSeeds = 3000;

TEST(FaultRuns, ThousandsOfSeedsKeepEveryInvariant) {
  const char* const given = std::getenv("PAGODA_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t count = given != nullptr ? 1 : kSeeds;
  SimulationSummary sum;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto run = run_fault_seed(seed, parts_factory({}));
    ASSERT_TRUE(run) << run.error().message();
    sum.completed += run->summary.completed;
    sum.aborted += run->summary.aborted;
    sum.failed += run->summary.failed;
    sum.refused += run->summary.refused;
    sum.preemptions += run->summary.preemptions;
    sum.preemptions_by_swap += run->summary.preemptions_by_swap;
    sum.prefix_hits += run->summary.prefix_hits;
    sum.shared_block_share = std::max(sum.shared_block_share, run->summary.shared_block_share);
  }
  if (given != nullptr) return;
  // The faults do happen.
  EXPECT_GT(sum.completed, 4000);
  EXPECT_GT(sum.aborted, 1000);
  EXPECT_GT(sum.failed, 100);
  EXPECT_GT(sum.refused, 1000);
  EXPECT_GT(sum.preemptions, 1500);
  EXPECT_GT(sum.preemptions_by_swap, 150);
  EXPECT_GT(sum.prefix_hits, 1000);
  EXPECT_GT(sum.shared_block_share, 0.3);
}

TEST(FaultRuns, ASeedIsTheSameRunAgain) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto first = run_fault_seed(seed, parts_factory({})),
               again = run_fault_seed(seed, parts_factory({}));
    ASSERT_TRUE(first && again);
    EXPECT_EQ(first->summary.num_steps, again->summary.num_steps);
    EXPECT_EQ(first->summary.duration_s, again->summary.duration_s);
    EXPECT_EQ(first->summary.aborted, again->summary.aborted);
  }
}

}  // namespace
}  // namespace pagoda
