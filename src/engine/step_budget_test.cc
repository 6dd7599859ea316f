// Goal: with a target, running streams wait little for the prompts of others, at little cost; nothing else
// changes. Method: the fake model on a clock that a plain cost formula moves, which the budget has to find
// out.
#include "engine/step_budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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
      seconds += count == 1 ? costs_.row
                            : count * (costs_.prompt_token +
                                       costs_.attention * (sequence.num_computed_tokens + count / 2) / 1000);
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

TEST(StepBudget, KnowsThatAPromptBecomesDearer) {
  EXPECT_LT(serve(100, {.attention = 0.0004}, 2000, 4).longest, 0.125);
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

// A step of so many decodes and so many tokens of one prompt, from `position` on.
struct Step {
  std::vector<std::vector<TokenId>> tokens;
  std::int32_t position;

  Step(std::int32_t decodes, std::int32_t prompt, std::int32_t position = 0)
      : tokens(static_cast<std::size_t>(decodes), {1}), position(position) {
    if (prompt > 0) tokens.emplace_back(static_cast<std::size_t>(prompt), 1);
  }
  ScheduledBatch batch() {
    ScheduledBatch batch = batch_of(tokens);
    batch.sequences.back().num_computed_tokens = position;
    return batch;
  }
};

TEST(StepBudget, IsTheWholeStepWhenNobodyWaits) {
  StepBudget budget(0.1, 512);
  EXPECT_EQ(budget.tokens(0, 0), 512);
  EXPECT_EQ(budget.tokens(4, 0), 4 + 128) << "before anything is known";
  for (int i = 0; i < 50; ++i) {
    budget.on_step(Step(4, 0).batch(), 0.012);  // 1 ms a row
    budget.on_step(Step(0, 100).batch(),
                   0.108 + 0.0025);  // 1 ms a token, half as much more a thousand before it
    budget.on_step(Step(0, 100, 2000).batch(), 0.208 + 0.0025);
  }
  EXPECT_EQ(budget.tokens(0, 0), 512);
  EXPECT_NEAR(budget.tokens(4, 0), 4 + 86, 1);
  EXPECT_NEAR(budget.tokens(4, 2000), 4 + 44, 2);
  EXPECT_NEAR(budget.tokens(52, 0), 52 + 40, 1);
  EXPECT_NEAR(budget.tokens(200, 0), 200 + 101, 1) << "half of the decodes' time";
  EXPECT_EQ(budget.tokens(510, 0), 512);
}

TEST(StepBudget, StepsThatMixBothCorrectWhatASlowStepTaught) {
  // The first decode takes three times what decodes take, and then every step has prompts in it, too.
  const double row = 0.0008, prompt_token = 0.0006;
  StepBudget budget(0.1, 512);
  budget.on_step(Step(1, 0).batch(), 3 * 9 * row);
  budget.on_step(Step(0, 256).batch(), 8 * row + 256 * prompt_token);
  double longest = 0;
  for (int step = 0; step < 100; ++step) {
    const std::int32_t decodes = 2 + step / 2, prompt = budget.tokens(decodes, 0) - decodes;
    const double seconds = (8 + decodes) * row + prompt * prompt_token;
    longest = std::max(longest, seconds);
    if (step > 10) EXPECT_NEAR(seconds, 0.1, 0.005) << step;
    budget.on_step(Step(decodes, prompt).batch(), seconds);
  }
  EXPECT_LT(longest, 0.14);
}

TEST(CostEstimate, FollowsAllCostsThroughNoise) {
  CostEstimate cost;
  EXPECT_FALSE(cost.known());
  EXPECT_EQ(cost.seconds({3, 5, 1}), 0);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> noise(0.9, 1.1), size(0, 1);
  const auto seconds_of = [](const StepWork& work, double slower) {
    return slower * (0.0008 * (kStepRows + work.decodes) + 0.0005 * work.tokens + 0.0002 * work.attended);
  };
  for (int step = 0; step < 400; ++step) {
    const double slower = step < 200 ? 1 : 3;  // as beside a neighbour from then on
    const double tokens = std::floor(200 * size(random));
    const StepWork work = {std::floor(64 * size(random)), tokens, tokens * 3 * size(random)};
    if (step % 200 > 40 && step % 50 > 10) {
      for (const StepWork& other : {StepWork{32, 100, 0}, StepWork{32, 100, 200}, StepWork{60, 0, 0}})
        EXPECT_NEAR(cost.seconds(other) / seconds_of(other, slower), 1, 0.25) << step;
    }
    cost.learn(work, (step % 50 == 49 ? 20 : 1) * seconds_of(work, slower) * noise(random));
  }
}

TEST(CostEstimate, TokensOfAPromptTakeTheTimeThatTheyAreCountedFor) {
  CostEstimate cost;
  for (int i = 0; i < 20; ++i) {
    cost.learn({16, 0, 0}, 0.024);
    cost.learn({16, 100, 200}, 0.164);
    cost.learn({16, 100, 5}, 0.086);
  }
  for (const double position : {0.0, 500.0, 8000.0}) {
    const double count = cost.prompt_tokens(0.07, position);
    const StepWork work = {0, count, count * (position + count / 2) / 1000};
    EXPECT_NEAR(cost.seconds(work) - cost.seconds({}), 0.07, 1e-9) << position;
  }
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
