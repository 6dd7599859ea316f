// Goal: with a target, running streams wait little for the prompts of others, at little cost; nothing else
// changes. Method: the fake model on a clock that a plain cost formula moves, which the budget has to find
// out.
#include "engine/step_budget.h"

#include <gtest/gtest.h>

#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::make_request;
using fake::Options;

struct Costs {
  double step = 0.004, row = 0.0005, prompt_token = 0.0004,
         attention = 0;  // the last: of a token and 1000 before it
};

class TimedRunner final : public ModelRunner {
 public:
  TimedRunner(const Options& options, const Costs& costs, fake::ManualClock& clock)
      : inner_(options.engine.block_size, options.num_blocks), costs_(costs), clock_(clock) {}

  StepResult run(const ScheduledBatch& batch) override {
    double seconds = costs_.step;
    bool decodes = false;
    for (const ScheduledSequence& sequence : batch.sequences) {
      const auto count = static_cast<double>(sequence.tokens.size());
      decodes |= count == 1;
      seconds += count == 1
                     ? costs_.row
                     : count * (costs_.prompt_token + costs_.attention * sequence.num_computed_tokens / 1000);
    }
    clock_.time += static_cast<TimeNs>(seconds * 1e9);
    if (decodes) longest = std::max(longest, seconds);
    return inner_.run(batch);
  }
  double longest = 0;  // step with a decode

 private:
  fake::FakeModelRunner inner_;
  const Costs costs_;
  fake::ManualClock& clock_;
};

struct Outcome {
  double longest = 0, total = 0;
};

// Eight streams, and then prompts of `length` tokens: short ones at once, long ones one after the other.
Outcome serve(double target_itl_ms, const Costs& costs, std::int32_t length, std::int32_t num_prompts) {
  Options options;
  options.engine.max_model_len = 3000;
  options.engine.max_num_seqs = 64;
  options.engine.max_num_batched_tokens = 512;
  options.engine.block_size = 16;
  options.engine.enable_prefix_caching = false;
  options.engine.target_itl_ms = target_itl_ms;
  options.num_blocks = 4000;
  fake::ManualClock clock;
  MetricsRegistry metrics;
  EngineParts parts = fake::make_parts(options);
  auto runner = std::make_unique<TimedRunner>(options, costs, clock);
  TimedRunner& timed = *runner;
  parts.runner = std::move(runner);
  EngineCore core(options.engine, std::move(parts), clock, metrics);
  std::vector<std::pair<Request, std::shared_ptr<fake::Collector>>> all;
  const auto submit = [&](std::int32_t prompt, std::int32_t max_tokens) {
    std::vector<TokenId> tokens;
    for (std::int32_t i = 0; i < prompt; ++i)
      tokens.push_back((i * 7 + static_cast<TokenId>(all.size())) % 40);
    Request request = make_request(all.size() + 1, std::move(tokens), max_tokens);
    auto sink = std::make_shared<fake::Collector>();
    EXPECT_TRUE(core.submit(request, sink).ok());
    all.emplace_back(std::move(request), std::move(sink));
  };
  for (int i = 0; i < 8; ++i) submit(20, 150);
  for (int i = 0; i < 10; ++i) core.step();
  for (std::int32_t i = 0; i < num_prompts; ++i) {
    submit(length, 30);
    for (int step = 0; step < 3 && length > 1000; ++step) core.step();
  }
  while (core.step()) core.check_invariants();
  for (const auto& [request, sink] : all)
    fake::expect_as_reference(request, *sink, options.engine.max_model_len);
  return {.longest = timed.longest, .total = to_seconds(clock.time)};
}

TEST(StepBudget, BoundsWhatRunningStreamsWaitAtLittleCost) {
  for (const std::int32_t length : {128, 2000}) {
    SCOPED_TRACE(length);
    const Outcome without = serve(0, {}, length, 8), with = serve(100, {}, length, 8);
    EXPECT_GT(without.longest, 0.2);
    EXPECT_LT(with.longest, 0.125);
    EXPECT_LT(with.total, 1.05 * without.total);
  }
}

TEST(StepBudget, FollowsPromptsThatBecomeDearer) {
  EXPECT_LT(serve(100, {.attention = 0.0004}, 2000, 4).longest, 0.15);
}

TEST(StepBudget, PromptsGetOnThoughDecodesTakeAllTheTime) {
  const Outcome slow = serve(5, {.row = 0.01}, 128, 4);  // a step of decodes alone takes 84 ms
  EXPECT_GT(slow.longest, 0.08);
  EXPECT_LT(slow.longest, 0.16);
}

ScheduledBatch batch_of(std::vector<std::vector<TokenId>>& tokens) {
  ScheduledBatch batch;
  for (const auto& of : tokens) {
    ScheduledSequence sequence;
    sequence.tokens = of;
    batch.sequences.push_back(sequence);
    batch.num_tokens += static_cast<std::int32_t>(of.size());
  }
  return batch;
}

TEST(StepBudget, IsTheWholeStepWhenNobodyWaits) {
  StepBudget budget(0.1, 512);
  EXPECT_EQ(budget.tokens(0), 512);
  EXPECT_EQ(budget.tokens(4), 4 + 128) << "before anything is known";
  std::vector<std::vector<TokenId>> decodes(4, {1}), prompt{std::vector<TokenId>(100, 1)};
  budget.on_step(batch_of(decodes), 0.012);  // 1 ms a row
  budget.on_step(batch_of(prompt), 0.108);   // of which 8 for the step, so 1 ms a token
  EXPECT_EQ(budget.tokens(0), 512);
  EXPECT_NEAR(budget.tokens(4), 4 + 88, 1);
  EXPECT_NEAR(budget.tokens(52), 52 + 40, 1);
  EXPECT_NEAR(budget.tokens(200), 200 + 104, 1) << "half of the decodes' time";
  EXPECT_EQ(budget.tokens(510), 512);
}

TEST(EngineConfig, ATargetNeedsPromptsThatCanBeSplit) {
  EngineConfig config = Options{}.engine;
  config.target_itl_ms = 50;
  EXPECT_TRUE(validate(config).ok());
  config.enable_chunked_prefill = false;
  EXPECT_NE(validate(config).message().find("--target-itl-ms"), std::string::npos);
  config.enable_chunked_prefill = true;
  config.target_itl_ms = -1;
  EXPECT_FALSE(validate(config).ok());
}

}  // namespace
}  // namespace pagoda
