// A step in flight: aborts that come then are only marked, and free memory when it retires.
#include "engine/step_pipeline.h"

#include <gtest/gtest.h>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::make_request;

// Calls `during` while a batch is being run.
class Interrupted final : public ModelRunner {
 public:
  explicit Interrupted(std::unique_ptr<ModelRunner> runner) : runner_(std::move(runner)) {}
  StepResult run(const ScheduledBatch& batch) override {
    if (during) std::exchange(during, nullptr)(batch);
    return runner_->run(batch);
  }
  std::function<void(const ScheduledBatch&)> during;

 private:
  std::unique_ptr<ModelRunner> runner_;
};

struct PipelineRig {
  PipelineRig() {
    EngineParts parts = fake::make_parts(options);
    auto owned = std::make_unique<Interrupted>(std::make_unique<fake::FakeModelRunner>(
        options.engine.block_size, options.num_blocks, 0, options.virtual_blocks()));
    runner = owned.get();
    parts.runner = std::move(owned);
    core = std::make_unique<EngineCore>(options.engine, std::move(parts), clock, metrics);
  }
  std::shared_ptr<fake::Collector> submit(Request request) {
    auto sink = std::make_shared<fake::Collector>();
    EXPECT_TRUE(core->submit(std::move(request), sink).ok());
    return sink;
  }
  bool step() {
    clock.time += 1'000'000;
    const bool ran = core->step();
    core->check_invariants();
    return ran;
  }
  const fake::Options options = [] {
    fake::Options out;
    out.engine.enable_prefix_caching = false;
    return out;
  }();
  fake::ManualClock clock;
  MetricsRegistry metrics;
  Interrupted* runner = nullptr;
  std::unique_ptr<EngineCore> core;
};

TEST(StepPipeline, AnAbortDuringAStepFreesWhenItRetires) {
  PipelineRig rig;
  const auto leaving = rig.submit(make_request(1, {1, 2, 3, 4, 5}, 20));
  const auto staying = rig.submit(make_request(2, {6, 7, 8}, 4));
  rig.step();
  const std::int64_t held = rig.core->kv().num_free_blocks();
  bool asked = false;
  rig.runner->during = [&](const ScheduledBatch& batch) {
    asked = true;
    rig.core->abort(RequestId{1});
    rig.core->abort(RequestId{99});  // nobody's
    EXPECT_FALSE(leaving->finished);
    EXPECT_EQ(rig.core->requests().size(), 2);
    EXPECT_EQ(rig.core->kv().num_free_blocks(), held) << "the batch points into its blocks";
    EXPECT_EQ(batch.sequences.size(), 2u);
  };
  EXPECT_TRUE(rig.step());
  EXPECT_TRUE(asked);
  EXPECT_TRUE(leaving->finished);
  EXPECT_EQ(leaving->choices.at(0).reason, FinishReason::abort);
  EXPECT_EQ(leaving->choices.at(0).tokens.size(), 2u) << "what the step drew is still delivered";
  EXPECT_EQ(rig.core->requests().size(), 1);
  EXPECT_EQ(rig.core->kv().num_free_blocks(), rig.options.num_blocks - 1);
  while (rig.step()) {
  }
  EXPECT_EQ(staying->choices.at(0).tokens,
            fake::reference(make_request(2, {6, 7, 8}, 4), 0, rig.options.engine.max_model_len).tokens);
  EXPECT_EQ(rig.core->kv().num_free_blocks(), rig.options.num_blocks);
}

TEST(StepPipeline, AnAbortOfWhatEndsInTheStepChangesNothing) {
  PipelineRig rig;
  const auto sink = rig.submit(make_request(1, {1, 2, 3}, 1));
  rig.runner->during = [&](const ScheduledBatch&) { rig.core->abort(RequestId{1}); };
  EXPECT_TRUE(rig.step());
  EXPECT_EQ(sink->choices.at(0).reason, FinishReason::length);
  EXPECT_TRUE(rig.core->idle());
}

TEST(StepPipeline, AnAbortOfOneSequenceDuringAStepEndsItAlone) {
  PipelineRig rig;
  Request request = make_request(1, {1, 2, 3}, 6);
  request.sampling.n = request.sampling.best_of = 2;
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  const auto sink = rig.submit(request);
  rig.step();
  rig.runner->during = [&](const ScheduledBatch&) { rig.core->abort_sequence(RequestId{1}, 0); };
  EXPECT_TRUE(rig.step());
  EXPECT_EQ(sink->choices.at(0).reason, FinishReason::abort);
  EXPECT_FALSE(sink->choices.at(1).reason.has_value());
  while (rig.step()) {
  }
  EXPECT_EQ(sink->choices.at(1).tokens, fake::reference(request, 1, 64).tokens);
}

TEST(StepPipeline, AFailedStepRetiresAndEndsWhatWasAborted) {
  PipelineRig rig;
  const auto leaving = rig.submit(make_request(1, {1, 2, 3}, 9));
  const auto other = rig.submit(make_request(2, {4, 5, 6}, 9));
  rig.step();
  rig.runner->during = [&](const ScheduledBatch&) {
    rig.core->abort(RequestId{1});
    throw std::runtime_error("lost");
  };
  EXPECT_FALSE(rig.step());
  EXPECT_FALSE(rig.core->status().ok());
  EXPECT_TRUE(leaving->finished && leaving->error.ok());
  EXPECT_FALSE(other->finished);
  rig.core->fail_all(rig.core->status());
  EXPECT_FALSE(other->error.ok());
  EXPECT_EQ(rig.core->kv().num_free_blocks(), rig.options.num_blocks);
}

}  // namespace
}  // namespace pagoda
