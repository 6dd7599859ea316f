// Several engines as one: where requests go, one engine's death, and what concerns all engines.
#include "engine/engine_group.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "engine/engine_test_support.h"
#include "engine/engine_thread.h"
#include "engine/waiting_sink.h"

namespace pagoda {
namespace {

using namespace std::chrono_literals;

// An engine that only notes what it is asked for, and answers when the test says so.
class NotingEngine final : public EngineClient {
 public:
  const EngineLimits& limits() const override { return limits_; }
  Status submit(Request request, std::shared_ptr<OutputSink> sink) override {
    if (!refusal.ok()) return refusal;
    EXPECT_FALSE(request.data_parallel_rank) << "the group has done what it asks for";
    requests.push_back(request);
    sinks[request.id] = std::move(sink);
    return ok_status();
  }
  void end(std::uint64_t id) {
    RequestOutput output;
    output.id = RequestId{id};
    output.finished = true;
    sinks.at(output.id)->on_output(std::move(output));
  }
  std::optional<Refusal> refuse_unread(std::string_view) override {
    ++num_refused;
    return Refusal{.status = resource_exhausted("Too late."), .wait_s = wait_s};
  }
  double expected_wait(std::string_view, std::int32_t) const override { return wait_s; }
  void abort(RequestId id) override { aborted.push_back(id); }
  void abort_sequence(RequestId id, std::int32_t index) override { ended.emplace_back(id, index); }
  Status add_prefix(std::string name, std::vector<TokenId> tokens,
                    std::shared_ptr<OutputSink> sink) override {
    if (!refusal.ok()) return refusal;
    RequestOutput output;
    output.finished = true;
    output.error = pin_error;
    if (pin_error.ok())
      prefixes.push_back(
          {.name = name, .num_tokens = static_cast<std::int32_t>(tokens.size()), .num_blocks = 3});
    sink->on_output(std::move(output));
    return ok_status();
  }
  std::vector<PrefixInfo> list_prefixes() const override { return prefixes; }
  Status drop_prefix(const std::string& name) override {
    return std::erase_if(prefixes, [&](const PrefixInfo& info) { return info.name == name; }) > 0
               ? ok_status()
               : not_found("There is none.");
  }
  void sleep(const SleepOrder&, ControlDone done) override { asked.push_back(std::move(done)); }
  void wake_up(const WakeOrder&, ControlDone done) override { asked.push_back(std::move(done)); }
  void reset_prefix_cache(ControlDone done) override { asked.push_back(std::move(done)); }
  void erase_cached(const CacheOwner&, ControlDone done) override { asked.push_back(std::move(done)); }
  bool is_sleeping() const override { return sleeping; }
  bool healthy() const override { return alive; }

  bool alive = true, sleeping = false;
  double wait_s = 0;
  int num_refused = 0;
  Status refusal, pin_error;
  std::vector<Request> requests;
  std::map<RequestId, std::shared_ptr<OutputSink>> sinks;
  std::vector<RequestId> aborted;
  std::vector<std::pair<RequestId, std::int32_t>> ended;
  std::vector<PrefixInfo> prefixes;
  std::vector<ControlDone> asked;

 private:
  EngineLimits limits_;
};

class EngineGroupTest : public ::testing::Test {
 protected:
  Status submit(std::uint64_t id, std::vector<TokenId> prompt, std::optional<std::int32_t> rank = {}) {
    Request request = fake::make_request(id, std::move(prompt), 4);
    request.data_parallel_rank = rank;
    return group.submit(std::move(request), std::make_shared<WaitingSink>());
  }
  // A prompt of two chunks that the router knows it by, and a bit.
  static std::vector<TokenId> session(TokenId number, std::size_t length = 140) {
    std::vector<TokenId> out(length);
    for (std::size_t i = 0; i < length; ++i) out[i] = (number * 7 + static_cast<TokenId>(i)) % 40;
    return out;
  }
  std::vector<std::size_t> counts() const {
    return {engines[0].requests.size(), engines[1].requests.size(), engines[2].requests.size()};
  }
  NotingEngine engines[3];
  EngineGroup group{{&engines[0], &engines[1], &engines[2]}, RouterKind::prefix_aware, 7};
};

using Counts = std::vector<std::size_t>;

TEST_F(EngineGroupTest, LoadIsSharedAndSessionsReturn) {
  for (TokenId i = 0; i < 3; ++i) ASSERT_TRUE(submit(static_cast<std::uint64_t>(i + 1), session(i)).ok());
  EXPECT_EQ(counts(), (Counts{1, 1, 1}));
  for (std::uint64_t id = 1; id <= 3; ++id) engines[id - 1].end(id);
  // Their next turns go where the first ones were, whatever the order.
  for (const TokenId i : {2, 0, 1})
    ASSERT_TRUE(submit(static_cast<std::uint64_t>(10 + i), session(i, 200)).ok());
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(engines[i].requests.size(), 2U);
    EXPECT_EQ(engines[i].requests[1].id, RequestId{10 + i});
  }
}

TEST_F(EngineGroupTest, ARankIsHonoured) {
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(submit(id, session(1), 2).ok());
  EXPECT_EQ(counts(), (Counts{0, 0, 5}));
  for (const std::int32_t rank : {-1, 3}) {
    const Status refused = submit(9, session(1), rank);
    EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
    EXPECT_EQ(refused.message(), concat("data_parallel_rank ", rank, " is out of range [0, 3)."));
  }
}

TEST_F(EngineGroupTest, AFullEngineLeavesRequestsToTheOthers) {
  ASSERT_TRUE(submit(1, session(1)).ok());
  engines[0].refusal = resource_exhausted("The queue is full.");
  ASSERT_TRUE(submit(2, session(1)).ok());
  EXPECT_EQ(counts(), (Counts{1, 1, 0}));
  EXPECT_EQ(submit(3, session(1), 0).code(), StatusCode::resource_exhausted) << "nowhere else";
  engines[0].refusal = invalid_argument("It can never fit.");
  EXPECT_EQ(submit(4, session(2, 3), 0).code(), StatusCode::invalid_argument);
  engines[1].refusal = engines[2].refusal = engines[0].refusal = resource_exhausted("The queue is full.");
  EXPECT_EQ(submit(5, session(1)).code(), StatusCode::resource_exhausted);
}

TEST_F(EngineGroupTest, ADeadEngineGetsNothing) {
  ASSERT_TRUE(submit(1, session(1)).ok());
  EXPECT_TRUE(group.check_health().ok());
  engines[0].alive = false;
  for (std::uint64_t id = 2; id <= 9; ++id) ASSERT_TRUE(submit(id, session(1)).ok());
  EXPECT_EQ(engines[0].requests.size(), 1U);
  EXPECT_TRUE(group.healthy());
  EXPECT_EQ(group.check_health().message(), "Engine 0 of 3 has stopped; the others continue.");
  engines[1].alive = engines[2].alive = false;
  EXPECT_FALSE(group.healthy());
  EXPECT_EQ(group.check_health().message(), "The engine has stopped.");
}

TEST_F(EngineGroupTest, AbortsGoToTheEngineOfTheRequest) {
  ASSERT_TRUE(submit(1, session(1), 1).ok());
  ASSERT_TRUE(submit(2, session(2), 2).ok());
  group.abort_sequence(RequestId{2}, 3);
  group.abort(RequestId{1});
  group.abort(RequestId{77});
  EXPECT_TRUE(engines[0].aborted.empty());
  EXPECT_EQ(engines[1].aborted, std::vector{RequestId{1}});
  EXPECT_EQ(engines[2].ended, (std::vector{std::pair(RequestId{2}, 3)}));
  engines[1].end(1);
  group.abort(RequestId{1});
  EXPECT_EQ(engines[1].aborted.size(), 1U) << "it has ended";
}

TEST_F(EngineGroupTest, RefusesUnreadWhatEveryEngineWouldRefuse) {
  engines[0].wait_s = 9;
  engines[1].wait_s = 4;
  engines[2].wait_s = 6;
  EXPECT_EQ(group.expected_wait("", 0), 4);
  EXPECT_EQ(group.refuse_unread("")->wait_s, 4);
  EXPECT_EQ(engines[0].num_refused + engines[2].num_refused, 0) << "it was counted once";
}

TEST_F(EngineGroupTest, PrefixesArePinnedInAllEnginesOrInNone) {
  auto sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(group.add_prefix("a", {1, 2, 3}, sink).ok());
  ASSERT_TRUE(sink->wait());
  EXPECT_TRUE(sink->error.ok());
  ASSERT_EQ(group.list_prefixes().size(), 1U);
  EXPECT_EQ(group.list_prefixes()[0].num_blocks, 9);
  EXPECT_EQ(group.list_prefixes()[0].num_tokens, 3);

  engines[1].pin_error = resource_exhausted("No room.");
  sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(group.add_prefix("b", {4}, sink).ok());
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->error.code(), StatusCode::resource_exhausted);
  EXPECT_EQ(group.list_prefixes().size(), 1U) << "the others have let it go";

  engines[1].pin_error = {};
  engines[2].refusal = unavailable("draining");  // it is refused when others have begun
  sink = std::make_shared<WaitingSink>();
  ASSERT_TRUE(group.add_prefix("c", {4}, sink).ok());
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->error.code(), StatusCode::unavailable);
  EXPECT_EQ(group.list_prefixes().size(), 1U);

  EXPECT_TRUE(group.drop_prefix("a").ok());
  EXPECT_EQ(group.drop_prefix("a").code(), StatusCode::not_found);
  EXPECT_TRUE(group.list_prefixes().empty());
}

TEST_F(EngineGroupTest, OrdersGoToAllThatLive) {
  engines[1].alive = false;
  std::vector<Status> answers;
  const auto done = [&](Status status) { answers.push_back(std::move(status)); };
  group.sleep({}, done);
  ASSERT_EQ(engines[0].asked.size(), 1U);
  EXPECT_TRUE(engines[1].asked.empty());
  engines[0].asked[0](ok_status());
  EXPECT_TRUE(answers.empty()) << "another has not answered";
  engines[2].sleeping = true;
  engines[2].asked.at(0)(ok_status());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].ok());
  EXPECT_TRUE(group.is_sleeping());
  group.wake_up({}, done);
  engines[2].asked.at(1)(unavailable("The weights are gone."));
  engines[0].asked.at(1)(ok_status());
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[1].message(), "The weights are gone.");
  group.reset_prefix_cache(done);
  engines[0].asked.at(2)(ok_status());
  engines[2].asked.at(2)(ok_status());
  ASSERT_EQ(answers.size(), 3U);
  group.erase_cached({.tenant = 1}, done);
  engines[0].asked.at(3)(ok_status());
  engines[2].asked.at(3)(ok_status());
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_TRUE(answers[3].ok());
  engines[0].alive = engines[2].alive = false;
  group.reset_prefix_cache(done);
  ASSERT_EQ(answers.size(), 5U);
  EXPECT_EQ(answers[4].code(), StatusCode::unavailable);
}

// Engine threads over the fake model, whose tokens are a function of the K/V that they find.
struct ThreadRig {
  explicit ThreadRig(std::size_t count, std::int64_t first_fails_at = -1) {
    fake::Options options;
    options.engine.max_model_len = 400;
    options.engine.seed = 11;
    options.num_blocks = 400;
    for (std::size_t i = 0; i < count; ++i) {
      options.engine.engine = static_cast<std::int32_t>(i);
      EngineParts parts = fake::make_parts(options);
      auto runner = std::make_unique<fake::FakeModelRunner>(options.engine.block_size, options.num_blocks);
      if (i == 0) runner->fail_at_step = first_fails_at;
      parts.runner = std::move(runner);
      auto core = std::make_unique<EngineCore>(options.engine, std::move(parts), clock,
                                               metrics.labelled(concat("engine=\"", i, "\"")));
      threads.push_back(std::make_unique<EngineThread>(options.engine, std::move(core)));
    }
    std::vector<EngineClient*> clients;
    for (const auto& thread : threads) clients.push_back(thread.get());
    group = std::make_unique<EngineGroup>(std::move(clients), RouterKind::prefix_aware, options.engine.seed);
  }
  SteadyClock clock;
  MetricsRegistry metrics;
  std::vector<std::unique_ptr<EngineThread>> threads;
  std::unique_ptr<EngineGroup> group;
};

// A request without a seed that draws its tokens.
Request drawn(std::uint64_t id, TokenId number) {
  Request request = fake::make_request(id, {}, 12);
  for (TokenId i = 0; i < 90; ++i) request.prompt_token_ids.push_back((number * 5 + i) % fake::kVocabulary);
  request.sampling.temperature = 1;
  return request;
}

TEST(EngineGroupThreads, TokensAreThoseOfOneEngine) {
  std::vector<std::vector<TokenId>> tokens[2];
  for (const std::size_t count : {1, 3}) {
    ThreadRig rig(count);
    EngineClient& client = count == 1 ? static_cast<EngineClient&>(*rig.threads[0]) : *rig.group;
    std::vector<std::shared_ptr<WaitingSink>> sinks;
    for (std::uint64_t id = 1; id <= 30; ++id) {
      sinks.push_back(std::make_shared<WaitingSink>());
      ASSERT_TRUE(client.submit(drawn(id, static_cast<TokenId>(id % 6)), sinks.back()).ok());
    }
    for (const auto& sink : sinks) {
      ASSERT_TRUE(sink->wait());
      ASSERT_TRUE(sink->error.ok());
      EXPECT_EQ(sink->tokens.size(), 12U);
      tokens[count == 1 ? 0 : 1].push_back(sink->tokens);
    }
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

TEST(EngineGroupThreads, OneEnginesDeathEndsItsOwnRequestsAlone) {
  ThreadRig rig(2, /*first_fails_at=*/20);
  std::atomic<std::uint64_t> next_id{1};
  std::atomic<int> failed{0}, served{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 40; ++k) {
        const std::uint64_t id = next_id.fetch_add(1);
        const auto sink = std::make_shared<WaitingSink>();
        const Status status = rig.group->submit(drawn(id, static_cast<TokenId>(id % 8)), sink);
        ASSERT_TRUE(status.ok()) << status.message();
        if (id % 5 == 0) rig.group->abort(RequestId{id});
        ASSERT_TRUE(sink->wait());
        ++(sink->error.ok() ? served : failed);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_FALSE(rig.threads[0]->healthy());
  EXPECT_TRUE(rig.threads[1]->healthy());
  EXPECT_GE(failed, 1);
  EXPECT_LE(failed, 4) << "no client has more than one request there when it dies";
  EXPECT_EQ(served + failed, 160);
  EXPECT_TRUE(rig.group->healthy());
  EXPECT_EQ(rig.group->check_health().message(),
            "Engine 0 of 2 has stopped; the others continue. It says: the device is lost");
  Request pinned = drawn(1000, 1);
  pinned.data_parallel_rank = 0;
  EXPECT_EQ(rig.group->submit(pinned, std::make_shared<WaitingSink>()).code(), StatusCode::unavailable);
  EXPECT_NE(rig.metrics.expose("vllm", "").find("vllm:num_requests_running{engine=\"1\"}"),
            std::string::npos);
}

TEST(EngineGroupThreads, APinnedPrefixIsFoundInEveryEngine) {
  ThreadRig rig(2);
  const Request like = drawn(1, 3);
  auto pinned = std::make_shared<WaitingSink>();
  ASSERT_TRUE(rig.group->add_prefix("system", like.prompt_token_ids, pinned).ok());
  ASSERT_TRUE(pinned->wait());
  ASSERT_TRUE(pinned->error.ok()) << pinned->error.message();
  for (const std::int32_t rank : {0, 1}) {
    Request request = like;
    request.id = RequestId{static_cast<std::uint64_t>(10 + rank)};
    request.prompt_token_ids.push_back(1);
    request.data_parallel_rank = rank;
    const auto sink = std::make_shared<WaitingSink>();
    ASSERT_TRUE(rig.group->submit(std::move(request), sink).ok());
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ(sink->num_cached_tokens, 90) << rank;
  }
  std::promise<Status> reset;
  rig.group->reset_prefix_cache([&](Status status) { reset.set_value(std::move(status)); });
  EXPECT_TRUE(reset.get_future().get().ok());
}

}  // namespace
}  // namespace pagoda
