#include "engine/engine_sleep.h"

#include <gtest/gtest.h>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

class LevelMemory final : public ModelRunner {
 public:
  StepResult run(const ScheduledBatch&) override { return {}; }
  Status release_memory(KvContent content) override {
    released = content;
    return ok_status();
  }
  Status load_weights() override { return loadable ? ok_status() : unavailable("no file"); }
  std::optional<KvContent> released;
  bool loadable = true;
};

struct Levels final : StepObserver {
  void on_sleep(std::int32_t level) override { seen.push_back(level); }
  std::vector<std::int32_t> seen;
};

struct SleepRig {
  SleepRig() { observers.add(levels); }
  const EngineParts parts = fake::make_parts({});
  LevelMemory runner;
  Levels levels;
  StepObservers observers;
  EngineSleep sleep{*parts.kv, runner, observers};
};

TEST(EngineSleep, LevelZeroKeepsAllMemory) {
  SleepRig rig;
  EXPECT_FALSE(rig.sleep.asleep());
  EXPECT_TRUE(rig.sleep.sleep(0).ok());
  EXPECT_TRUE(rig.sleep.asleep());
  EXPECT_FALSE(rig.runner.released.has_value());
  EXPECT_TRUE(rig.sleep.wake_up({}).ok());
  EXPECT_FALSE(rig.sleep.asleep());
  EXPECT_EQ(rig.levels.seen, std::vector<std::int32_t>({0, -1}));
}

TEST(EngineSleep, WakesPieceByPieceAndOnlyWithItsWeights) {
  SleepRig rig;
  EXPECT_TRUE(rig.sleep.sleep(1).ok());
  EXPECT_EQ(rig.runner.released, ModelRunner::KvContent::drop);
  rig.runner.loadable = false;
  EXPECT_FALSE(rig.sleep.wake_up({}).ok());
  EXPECT_TRUE(rig.sleep.asleep());
  rig.runner.loadable = true;
  EXPECT_TRUE(rig.sleep.wake_up({.weights = true, .kv_cache = false, .scheduling = false}).ok());
  EXPECT_TRUE(rig.sleep.asleep());
  EXPECT_TRUE(rig.sleep.wake_up({.weights = false, .kv_cache = true, .scheduling = false}).ok());
  EXPECT_FALSE(rig.sleep.asleep());
}

TEST(EngineSleep, KeepsTheKvThatSequencesHold) {
  SleepRig rig;
  const std::vector<TokenId> tokens(5, 1);
  rig.parts.kv->add_sequence(SequenceId{1}, tokens, "", true);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(rig.parts.kv->grow(SequenceId{1}, 5, copies));
  EXPECT_TRUE(rig.sleep.sleep(2).ok());
  EXPECT_EQ(rig.runner.released, ModelRunner::KvContent::keep);
}

}  // namespace
}  // namespace pagoda
