#include "engine/engine_thread.h"

#include <gtest/gtest.h>
#include <time.h>

#include <future>
#include <limits>
#include <semaphore>

#include "base/watchdog.h"
#include "engine/fake_model_runner.h"
#include "engine/waiting_sink.h"
#include "kv_cache/paged_kv_manager.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {
namespace {

using namespace std::chrono_literals;

Request short_request(std::uint64_t id, std::int32_t max_tokens) {
  Request request;
  request.id = RequestId{id};
  request.prompt_token_ids = {1, 2, 3, static_cast<TokenId>(id % 30)};
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.seed = id;
  return request;
}

struct EngineThreadRig {
  explicit EngineThreadRig(std::int64_t max_waiting = 1000, std::int64_t fail_at_step = -1,
                           int num_preparations = 0) {
    EngineConfig config{.max_model_len = 1000,
                        .max_num_seqs = 16,
                        .max_num_batched_tokens = 64,
                        .block_size = 4,
                        .max_waiting = max_waiting,
                        .vocab_size = fake::kVocabulary,
                        .log_stats = false};
    auto kv = std::make_unique<PagedKvManager>(
        PagedKvConfig{.block_size = 4, .num_blocks = 300, .model_id = "fake"});
    auto scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *kv);
    auto runner = std::make_unique<fake::FakeModelRunner>(4, 300);
    runner->fail_at_step = fail_at_step;
    runner->preparations_left = num_preparations;
    preparations_left = &runner->preparations_left;
    auto core = std::make_unique<EngineCore>(
        config, EngineParts{std::move(kv), std::move(scheduler), std::move(runner)}, clock, metrics);
    engine = std::make_unique<EngineThread>(config, std::move(core));
  }
  double gauge(const char* name) { return metrics.gauge(name, "").value(); }
  SteadyClock clock;
  MetricsRegistry metrics;
  std::atomic<int>* preparations_left = nullptr;  // the runner's
  std::unique_ptr<EngineThread> engine;
};

TEST(EngineThread, ManyClientsAThirdOfWhichHangUp) {
  EngineThreadRig rig;
  std::vector<std::thread> clients;
  std::atomic<std::uint64_t> next_id{1};
  std::atomic<std::int64_t> finished{0};
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 25; ++k) {
        const std::uint64_t id = next_id.fetch_add(1);
        auto sink = std::make_shared<WaitingSink>();
        ASSERT_TRUE(rig.engine->submit(short_request(id, 20), sink).ok());
        const bool hangs_up = id % 3 == 0;
        if (hangs_up) {
          EXPECT_TRUE(sink->wait_first());
          rig.engine->abort(RequestId{id});
        }
        ASSERT_TRUE(sink->wait());
        EXPECT_TRUE(sink->error.ok());
        if (!hangs_up) EXPECT_EQ(sink->tokens.size(), 20u);
        finished.fetch_add(1);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(finished.load(), 200);
  EXPECT_TRUE(rig.engine->wait_idle(10s));
  EXPECT_EQ(rig.gauge("kv_cache_usage_perc"), 0);
  EXPECT_EQ(rig.gauge("num_requests_running"), 0);
}

TEST(EngineThread, IdleTimeGoesToPreparationsAndRequestsDoNotWaitForThem) {
  EngineThreadRig few(1000, -1, 50);
  for (int i = 0; i < 2000 && *few.preparations_left > 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(*few.preparations_left, 0);
  EngineThreadRig endless(1000, -1, std::numeric_limits<int>::max());
  for (std::uint64_t id = 1; id <= 3; ++id) {
    auto sink = std::make_shared<WaitingSink>();
    ASSERT_TRUE(endless.engine->submit(short_request(id, 20), sink).ok());
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ(sink->tokens.size(), 20u);
  }
  endless.engine->stop();
  EXPECT_GT(*endless.preparations_left, 0);
}

TEST(EngineThread, AFullQueueIsRefusedAndAcceptedOnesAreServed) {
  EngineThreadRig rig(40);
  std::vector<std::shared_ptr<WaitingSink>> accepted;
  std::int64_t refused = 0;
  for (std::uint64_t id = 1; id <= 2000; ++id) {
    auto sink = std::make_shared<WaitingSink>();
    const Status status = rig.engine->submit(short_request(id, 50), sink);
    if (status.ok()) {
      accepted.push_back(sink);
    } else {
      ASSERT_EQ(status.code(), StatusCode::resource_exhausted);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GE(accepted.size(), 40u);
  for (const auto& sink : accepted) ASSERT_TRUE(sink->wait());
}

TEST(EngineThread, DrainFinishesWhatWasAccepted) {
  EngineThreadRig rig;
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  for (std::uint64_t id = 1; id <= 30; ++id) {
    sinks.push_back(std::make_shared<WaitingSink>());
    ASSERT_TRUE(rig.engine->submit(short_request(id, 100), sinks.back()).ok());
  }
  rig.engine->begin_drain();
  EXPECT_EQ(rig.engine->submit(short_request(99, 1), std::make_shared<WaitingSink>()).code(),
            StatusCode::unavailable);
  EXPECT_TRUE(rig.engine->wait_idle(20s));
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ(sink->tokens.size(), 100u);
  }
  EXPECT_TRUE(rig.engine->healthy());
}

TEST(EngineThread, StopAnswersEveryone) {
  EngineThreadRig rig;
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  for (std::uint64_t id = 1; id <= 100; ++id) {
    sinks.push_back(std::make_shared<WaitingSink>());
    ASSERT_TRUE(rig.engine->submit(short_request(id, 900), sinks.back()).ok());
  }
  ASSERT_TRUE(sinks[0]->wait_first());
  rig.engine->stop();
  rig.engine->stop();
  for (const auto& sink : sinks) ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sinks.back()->error.code(), StatusCode::unavailable);
}

TEST(EngineThread, ADeadEngineTellsEveryoneAndTurnsUnhealthy) {
  EngineThreadRig rig(1000, 50);
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  for (std::uint64_t id = 1; id <= 30; ++id) {
    auto sink = std::make_shared<WaitingSink>();
    if (rig.engine->submit(short_request(id, 900), sink).ok()) sinks.push_back(sink);
  }
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->wait());
    EXPECT_FALSE(sink->error.ok());
  }
  EXPECT_TRUE(rig.engine->wait_idle(10s));
  EXPECT_FALSE(rig.engine->healthy());
  EXPECT_EQ(rig.engine->check_health().message(), "The engine has stopped: the device is lost");
  EXPECT_EQ(rig.engine->submit(short_request(99, 1), std::make_shared<WaitingSink>()).code(),
            StatusCode::unavailable);
}

TEST(EngineThread, PrefixesAreAddedListedUsedAndDropped) {
  EngineThreadRig rig;
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6};  // a block and a half
  auto added = std::make_shared<WaitingSink>();
  ASSERT_TRUE(rig.engine->add_prefix("rules", tokens, added).ok());
  ASSERT_TRUE(added->wait());
  EXPECT_TRUE(added->error.ok()) << added->error.message();
  ASSERT_EQ(rig.engine->list_prefixes().size(), 1u);
  EXPECT_EQ(rig.engine->list_prefixes()[0].name, "rules");
  EXPECT_EQ(rig.engine->list_prefixes()[0].num_tokens, 6);
  EXPECT_EQ(rig.engine->list_prefixes()[0].num_blocks, 2);

  auto twice = std::make_shared<WaitingSink>();
  ASSERT_TRUE(rig.engine->add_prefix("rules", {7}, twice).ok()) << "the answer comes through the sink";
  ASSERT_TRUE(twice->wait());
  EXPECT_EQ(twice->error.code(), StatusCode::already_exists);

  auto sink = std::make_shared<WaitingSink>();
  Request request = short_request(1, 3);
  request.prompt_token_ids = {1, 2, 3, 4, 5, 6, 9};
  request.cache_salt = "someone's own";
  ASSERT_TRUE(rig.engine->submit(std::move(request), sink).ok());
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->num_cached_tokens, 6) << "for everybody, whatever the salt";

  EXPECT_EQ(rig.engine->drop_prefix("rule").code(), StatusCode::not_found);
  EXPECT_TRUE(rig.engine->drop_prefix("rules").ok());
  EXPECT_TRUE(rig.engine->list_prefixes().empty());
  EXPECT_EQ(rig.engine->drop_prefix("rules").code(), StatusCode::not_found);
  auto again = std::make_shared<WaitingSink>();
  ASSERT_TRUE(rig.engine->add_prefix("rules", tokens, again).ok());
  ASSERT_TRUE(again->wait());
  EXPECT_TRUE(again->error.ok()) << "the name is free at once";
  EXPECT_TRUE(rig.engine->drop_prefix("rules").ok());
  ASSERT_TRUE(rig.engine->wait_idle(10s));
  std::promise<Result<std::shared_ptr<const EngineSnapshot>>> promise;
  rig.engine->snapshot([&promise](auto taken) { promise.set_value(std::move(taken)); });
  const auto snapshot = promise.get_future().get();
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ((*snapshot)->num_free_blocks, 300);

  rig.engine->stop();
  bool told = false;
  rig.engine->snapshot([&told](const auto& taken) { told = !taken.has_value(); });
  EXPECT_TRUE(told) << "who asks an engine that has ended is told so at once";
}

TEST(EngineThread, AnEndingEngineAnswersWhoAddsAPrefix) {
  EngineThreadRig rig(1000, 1);
  auto failed = std::make_shared<WaitingSink>();
  ASSERT_TRUE(rig.engine->add_prefix("p", std::vector<TokenId>(200, 1), failed).ok());
  ASSERT_TRUE(failed->wait());
  EXPECT_FALSE(failed->error.ok());
  EXPECT_EQ(rig.engine->add_prefix("q", {1}, failed).code(), StatusCode::unavailable);
}

TEST(EngineThread, IdleUsesNoCpu) {
  EngineThreadRig rig;
  auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(rig.engine->submit(short_request(1, 5), sink).ok());
  ASSERT_TRUE(sink->wait());
  ASSERT_TRUE(rig.engine->wait_idle(10s));
  const auto cpu_ns = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
  };
  // While this thread computes for so long, one that did not sleep would do so about as long.
  constexpr std::int64_t kComputed = 100'000'000;
  const auto all = cpu_ns(CLOCK_PROCESS_CPUTIME_ID), own = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - own < kComputed) {
  }
  const auto others = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - all - (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - own);
  EXPECT_LT(others, kComputed / 20) << "an idle engine must sleep";
}

using LiveStates = EngineClient::LiveStates;

// The engine's answers when it is asked again and again, with some steps in between, until no request is
// left.
LiveStates look_until_idle(EngineThread& engine, std::counting_semaphore<>& begun) {
  LiveStates all;
  do {
    auto answer = std::make_shared<std::promise<Result<LiveStates>>>();
    engine.live_state(all.empty() ? -1 : all.back()->step,
                      [answer](Result<LiveStates> states) { answer->set_value(std::move(states)); });
    const Result<LiveStates> states = answer->get_future().get();
    if (!states) break;
    all.insert(all.end(), states->begin(), states->end());
    begun.release();
    const std::optional<std::uint64_t> begin = engine.beat();
    for (auto now = begin; begin && now && *now < *begin + 10; now = engine.beat()) std::this_thread::yield();
  } while (all.back()->requests.size() > 0 || all.back()->step == 0);
  return all;
}

TEST(EngineThread, TellsOfEveryStepWhereItIsWanted) {
  EngineThreadRig rig;
  rig.engine->live_every_step(true);
  auto sink = std::make_shared<WaitingSink>();
  std::counting_semaphore<> begun{0};
  std::future<LiveStates> looking = std::async([&] { return look_until_idle(*rig.engine, begun); });
  ASSERT_TRUE(begun.try_acquire_for(20s));
  ASSERT_TRUE(rig.engine->submit(short_request(1, 300), sink).ok());
  ASSERT_TRUE(sink->wait());
  const LiveStates states = looking.get();
  std::int64_t steps = 0;
  for (const auto& state : states) {
    EXPECT_TRUE(state->every_step);
    EXPECT_LE(state->steps.size(), 1u);
    steps += std::ssize(state->steps);
  }
  EXPECT_EQ(steps, states.back()->step);
  EXPECT_GE(steps, 300);
}

// Does not come back from a step until it is let go.
class HangingRunner final : public ModelRunner {
 public:
  HangingRunner(std::counting_semaphore<>& go, std::unique_ptr<ModelRunner> inner)
      : go_(go), inner_(std::move(inner)) {}
  StepResult run(const ScheduledBatch& batch) override {
    go_.acquire();
    return inner_->run(batch);
  }

 private:
  std::counting_semaphore<>& go_;
  std::unique_ptr<ModelRunner> inner_;
};

TEST(EngineThread, AStalledLoopIsNoticedAndTakesNothingMore) {
  SteadyClock clock;
  MetricsRegistry metrics;
  std::counting_semaphore<> go{0};
  EngineConfig config{.max_model_len = 1000,
                      .max_num_seqs = 16,
                      .max_num_batched_tokens = 64,
                      .block_size = 4,
                      .vocab_size = fake::kVocabulary,
                      .log_stats = false};
  auto kv =
      std::make_unique<PagedKvManager>(PagedKvConfig{.block_size = 4, .num_blocks = 300, .model_id = "fake"});
  auto scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *kv);
  auto runner = std::make_unique<HangingRunner>(go, std::make_unique<fake::FakeModelRunner>(4, 300));
  EngineThread engine(config, std::make_unique<EngineCore>(
                                  config, EngineParts{std::move(kv), std::move(scheduler), std::move(runner)},
                                  clock, metrics));
  std::binary_semaphore noticed{0};
  {
    std::atomic<int> num_looks{0};
    const auto look = [&] {
      ++num_looks;
      return engine.beat();
    };
    const Watchdog watchdog({.tick = 5ms, .max_ticks = 10}, look, [&] {
      engine.give_up();
      EXPECT_EQ(engine.check_health().message(), "The engine has stopped: it makes no progress");
      noticed.release();
    });
    for (int i = 0; i < 1000 && engine.beat(); ++i) std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(engine.beat()) << "it waits for work";
    for (const int until = num_looks + 20; num_looks < until;) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(engine.healthy());
    auto sink = std::make_shared<WaitingSink>();
    ASSERT_TRUE(engine.submit(short_request(1, 3), sink).ok());
    EXPECT_TRUE(noticed.try_acquire_for(20s));
    EXPECT_FALSE(engine.healthy());
    EXPECT_EQ(engine.submit(short_request(2, 3), std::make_shared<WaitingSink>()).code(),
              StatusCode::unavailable);
  }
  go.release(1000);
}

}  // namespace
}  // namespace pagoda
