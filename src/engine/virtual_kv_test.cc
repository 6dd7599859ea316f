// Goal: what holds for the engine on the paged manager holds on the virtual one. Method: this program runs
// itself once more with the other manager behind the engine, and every test that names no block by number.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::make_request;
using fake::Options;
using fake::Rig;

TEST(VirtualKv, TheOtherTestsHoldToo) {
  if (std::getenv("PAGODA_TEST_VIRTUAL_KV") != nullptr) GTEST_SKIP() << "this is the other run";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("PAGODA_TEST_VIRTUAL_KV", "1", 1);
    execl("/proc/self/exe", "engine_test", "--gtest_brief=1",
          "--gtest_filter=EngineCore.*:BeamSearch.*:Prefix.*:ForkBomb.*:TakeSnapshot.*", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see the output above";
}

TEST(VirtualKv, StepsThatOnlyDecodeMapBesideThemselves) {
  for (const bool map_ahead : {true, false}) {
    Options options;
    options.virtual_kv = true;
    options.slots.map_ahead = map_ahead;
    Rig rig(options);
    const auto sink = rig.submit(make_request(1, {1, 2, 3, 4, 5}, 30));
    rig.step();
    const std::int64_t first = rig.runner->num_mappings;
    rig.run_all();
    EXPECT_EQ(first, 1) << "the prompt's pages are neighbours";
    EXPECT_TRUE(sink->finished);
    const SlotMapCounts counts = dynamic_cast<const VirtualKvManager&>(rig.core->kv()).slots().counts();
    EXPECT_EQ(counts.mapped_blocks, map_ahead ? 2 : 9);
  }
}

// Pages that could be created count as free until that is refused: whoever is to be swapped in needs them for
// sure, or it is preempted again in the very step.
TEST(VirtualKv, NobodyIsSwappedInForPagesThatAreRefused) {
  Options options;
  options.virtual_kv = true;
  options.num_created = 8;
  options.num_swap_blocks = 8;
  options.engine.preemption_mode = PreemptionMode::swap;
  Rig rig(options);
  const Request first = make_request(1, {1, 2, 3, 4}, 24),
                second = make_request(2, {8, 7, 6, 5, 4, 3, 2, 1}, 20);
  const auto first_sink = rig.submit(first), second_sink = rig.submit(second);
  rig.run_all();
  const SchedulerCounts counts = rig.core->scheduler().counts();
  EXPECT_EQ(counts.preemptions_by_swap, 1);
  EXPECT_EQ(counts.blocks_swapped_in, counts.blocks_swapped_out);
  for (const auto& [request, sink] : {std::pair(first, first_sink), std::pair(second, second_sink)})
    EXPECT_EQ(sink->choices.at(0).tokens, fake::reference(request, 0, 64).tokens);
}

}  // namespace
}  // namespace pagoda
