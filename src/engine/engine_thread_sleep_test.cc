// Sleeping and waking: who waits, who ends, what is given back, and that nothing of it shows in the answers.
#include <gtest/gtest.h>

#include <future>

#include "engine/engine_thread.h"
#include "engine/fake_model_runner.h"
#include "engine/waiting_sink.h"
#include "kv_cache/paged_kv_manager.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {
namespace {

using namespace std::chrono_literals;

Request seeded_request(std::uint64_t id, std::int32_t max_tokens) {
  Request request;
  request.id = RequestId{id};
  for (TokenId token = 1; token <= 12; ++token) request.prompt_token_ids.push_back(token);
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.seed = 5;
  return request;
}

struct SleepingThreadRig {
  SleepingThreadRig() {
    const EngineConfig config{.max_model_len = 4000,
                              .max_num_seqs = 16,
                              .max_num_batched_tokens = 64,
                              .block_size = 4,
                              .max_waiting = 20,
                              .vocab_size = fake::kVocabulary,
                              .log_stats = false};
    auto kv = std::make_unique<PagedKvManager>(
        PagedKvConfig{.block_size = 4, .num_blocks = 3000, .model_id = "fake"});
    auto scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *kv);
    auto made = std::make_unique<fake::FakeModelRunner>(4, 3000);
    runner = made.get();
    auto core = std::make_unique<EngineCore>(
        config, EngineParts{std::move(kv), std::move(scheduler), std::move(made)}, clock, metrics);
    engine = std::make_unique<EngineThread>(config, std::move(core));
  }
  std::shared_ptr<WaitingSink> submit(std::uint64_t id, std::int32_t max_tokens) {
    auto sink = std::make_shared<WaitingSink>();
    EXPECT_TRUE(engine->submit(seeded_request(id, max_tokens), sink).ok());
    return sink;
  }
  std::future<Status> sleep(const SleepOrder& order) {
    auto promise = std::make_shared<std::promise<Status>>();
    engine->sleep(order, [promise](Status status) { promise->set_value(std::move(status)); });
    return promise->get_future();
  }
  Status wake(const WakeOrder& order = {}) {
    std::promise<Status> promise;
    engine->wake_up(order, [&](Status status) { promise.set_value(std::move(status)); });
    return promise.get_future().get();
  }
  // The engine's loop has gone round, and has taken all that was sent before.
  void let_turn_pass() const {
    std::promise<void> answered;
    engine->snapshot([&answered](auto&&) { answered.set_value(); });
    answered.get_future().get();
  }
  double state(const char* name) {
    return metrics.gauge("engine_sleep_state", "", concat_label(name)).value();
  }
  static std::string concat_label(const char* name) {
    return std::string("sleep_state=\"").append(name).append("\"");
  }
  SteadyClock clock;
  MetricsRegistry metrics;
  fake::FakeModelRunner* runner = nullptr;
  std::unique_ptr<EngineThread> engine;
};

TEST(EngineSleep, WhoComesMeanwhileWaitsAndGetsTheSameTokens) {
  SleepingThreadRig rig;
  const auto before = rig.submit(1, 30);
  ASSERT_TRUE(before->wait());
  EXPECT_FALSE(rig.engine->is_sleeping());
  EXPECT_EQ(rig.state("awake"), 1);
  ASSERT_TRUE(rig.sleep({.level = 1}).get().ok());
  EXPECT_TRUE(rig.engine->is_sleeping());
  EXPECT_TRUE(rig.runner->released && rig.runner->dropped);
  EXPECT_EQ(rig.state("awake"), 0);
  EXPECT_EQ(rig.state("weights_offloaded"), 1);
  const auto during = rig.submit(2, 30);
  for (int i = 0; i < 3; ++i) rig.let_turn_pass();
  EXPECT_FALSE(during->done());
  ASSERT_TRUE(rig.wake().ok());
  ASSERT_TRUE(during->wait());
  EXPECT_EQ(during->tokens, before->tokens);
  EXPECT_EQ(during->num_cached_tokens, 0) << "what was cached has gone with its memory";
  EXPECT_FALSE(rig.engine->is_sleeping());
  EXPECT_EQ(rig.state("awake"), 1);
  EXPECT_EQ(rig.state("weights_offloaded"), 0);
}

TEST(EngineSleep, AbortTellsThoseThatRun) {
  SleepingThreadRig rig;
  const auto running = rig.submit(1, 3000);
  ASSERT_TRUE(running->wait_first());
  ASSERT_TRUE(rig.sleep({.level = 2}).get().ok());
  ASSERT_TRUE(running->wait());
  EXPECT_EQ(running->error.code(), StatusCode::unavailable);
  EXPECT_EQ(rig.state("discard_all"), 1);
  EXPECT_TRUE(rig.runner->dropped);
  ASSERT_TRUE(rig.wake().ok());
}

TEST(EngineSleep, WaitFinishesWhatRunsAndHoldsBackWhatComes) {
  SleepingThreadRig rig;
  const auto running = rig.submit(1, 2000);
  ASSERT_TRUE(running->wait_first());
  std::future<Status> asleep = rig.sleep({.level = 1, .running = SleepOrder::Running::wait});
  const auto held = rig.submit(2, 5), gone = rig.submit(3, 5);
  rig.engine->abort(RequestId{3});
  ASSERT_TRUE(running->wait());
  EXPECT_TRUE(running->error.ok());
  EXPECT_EQ(running->tokens.size(), 2000u);
  ASSERT_TRUE(asleep.get().ok());
  ASSERT_TRUE(gone->wait()) << "a client that has hung up is not waited for";
  EXPECT_FALSE(held->done());
  ASSERT_TRUE(rig.wake().ok());
  ASSERT_TRUE(held->wait());
  EXPECT_EQ(held->tokens, std::vector<TokenId>(running->tokens.begin(), running->tokens.begin() + 5));
}

TEST(EngineSleep, KeepGoesOnWhereItStood) {
  SleepingThreadRig rig;
  const auto whole = rig.submit(1, 3000);
  ASSERT_TRUE(whole->wait());
  const auto kept = rig.submit(2, 3000);
  ASSERT_TRUE(kept->wait_first());
  ASSERT_TRUE(rig.sleep({.level = 1, .running = SleepOrder::Running::keep}).get().ok());
  EXPECT_TRUE(rig.runner->released);
  EXPECT_FALSE(rig.runner->dropped) << "its K/V are needed";
  EXPECT_FALSE(kept->done());
  ASSERT_TRUE(rig.wake().ok());
  ASSERT_TRUE(kept->wait());
  EXPECT_EQ(kept->tokens, whole->tokens);
}

TEST(EngineSleep, PartsAreWokenOneByOneAndAFailureLeavesItAsleep) {
  SleepingThreadRig rig;
  ASSERT_TRUE(rig.sleep({.level = 1}).get().ok());
  rig.runner->load_fails = true;
  EXPECT_EQ(rig.wake().code(), StatusCode::unavailable);
  EXPECT_TRUE(rig.engine->is_sleeping());
  rig.runner->load_fails = false;
  ASSERT_TRUE(rig.wake({.weights = true, .kv_cache = false, .scheduling = false}).ok());
  EXPECT_FALSE(rig.runner->released);
  EXPECT_TRUE(rig.engine->is_sleeping());
  ASSERT_TRUE(rig.wake({.weights = false, .kv_cache = true, .scheduling = false}).ok());
  EXPECT_FALSE(rig.engine->is_sleeping());
  ASSERT_TRUE(rig.submit(1, 3)->wait());
}

TEST(EngineSleep, LevelZeroOnlyPauses) {
  SleepingThreadRig rig;
  ASSERT_TRUE(rig.submit(1, 30)->wait());
  ASSERT_TRUE(rig.sleep({.level = 0}).get().ok());
  EXPECT_FALSE(rig.runner->released);
  const auto waiting = rig.submit(2, 3);
  ASSERT_TRUE(rig.wake({.weights = false, .kv_cache = false, .scheduling = true}).ok());
  ASSERT_TRUE(waiting->wait());
  EXPECT_EQ(waiting->num_cached_tokens, 8) << "the cache is kept";
}

TEST(EngineSleep, LateOnesAreToldAndTheQueueKeepsItsBound) {
  SleepingThreadRig rig;
  ASSERT_TRUE(rig.sleep({.level = 1}).get().ok());
  auto late = std::make_shared<WaitingSink>();
  Request request = seeded_request(1, 3);
  request.deadline = rig.clock.now() + 30'000'000;
  ASSERT_TRUE(rig.engine->submit(std::move(request), late).ok());
  ASSERT_TRUE(late->wait());
  EXPECT_EQ(late->error.code(), StatusCode::deadline_exceeded);
  StatusCode last = StatusCode::ok;
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  for (std::uint64_t id = 2; id <= 200 && last == StatusCode::ok; ++id) {
    sinks.push_back(std::make_shared<WaitingSink>());
    last = rig.engine->submit(seeded_request(id, 3), sinks.back()).code();
  }
  EXPECT_EQ(last, StatusCode::resource_exhausted);
  sinks.pop_back();
  ASSERT_TRUE(rig.wake().ok());
  for (const auto& sink : sinks) ASSERT_TRUE(sink->wait());
}

TEST(EngineSleep, StoppingASleeperEndsEveryone) {
  SleepingThreadRig rig;
  ASSERT_TRUE(rig.sleep({.level = 1}).get().ok());
  const auto waiting = rig.submit(1, 3);
  rig.engine->stop();
  ASSERT_TRUE(waiting->wait());
  EXPECT_EQ(waiting->error.code(), StatusCode::unavailable);
  EXPECT_EQ(rig.sleep({.level = 1}).get().code(), StatusCode::unavailable);
}

TEST(EngineSleep, StoppingOneThatFallsAsleepEndsEveryone) {
  SleepingThreadRig rig;
  const auto running = rig.submit(1, 3000);
  ASSERT_TRUE(running->wait_first());
  std::future<Status> asleep = rig.sleep({.level = 1, .running = SleepOrder::Running::wait});
  const auto held = rig.submit(2, 3);
  rig.engine->stop();
  ASSERT_TRUE(running->wait());
  ASSERT_TRUE(held->wait());
  EXPECT_EQ(asleep.wait_for(20s), std::future_status::ready) << "it is told, one way or the other";
}

TEST(EngineSleep, AResetCacheIsNotFound) {
  SleepingThreadRig rig;
  ASSERT_TRUE(rig.submit(1, 3)->wait());
  const auto hit = rig.submit(2, 3);
  ASSERT_TRUE(hit->wait());
  EXPECT_EQ(hit->num_cached_tokens, 8);
  std::promise<Status> reset;
  rig.engine->reset_prefix_cache([&](Status status) { reset.set_value(std::move(status)); });
  ASSERT_TRUE(reset.get_future().get().ok());
  const auto missed = rig.submit(3, 3);
  ASSERT_TRUE(missed->wait());
  EXPECT_EQ(missed->num_cached_tokens, 0);
  EXPECT_EQ(missed->tokens, hit->tokens);
}

}  // namespace
}  // namespace pagoda
