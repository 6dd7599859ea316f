// Forecasts against what follows by hand from the costs of steps, and who is refused by them.
#include "engine/queue_forecast.h"

#include <gtest/gtest.h>

#include "engine/admission_gate.h"

namespace pagoda {
namespace {

constexpr double kToken = 0.001, kRow = 0.002;  // seconds of a prompt's token and of a decode in a step

// Costs as learned from many steps of several kinds.
StepBudget learned(double target_s = 0) {
  StepBudget out(target_s, 512);
  ScheduledBatch batch;
  std::vector<TokenId> tokens(256, 1);
  for (int i = 0; i < 400; ++i) {
    batch.sequences.clear();
    const int decodes = 1 + i % 7 * 9, prompt = i % 3 == 0 ? 0 : 32 * (i % 5 + 1);
    for (int k = 0; k < decodes; ++k) batch.sequences.emplace_back().tokens = std::span(tokens).first(1);
    if (prompt > 0)
      batch.sequences.emplace_back().tokens = std::span(tokens).first(static_cast<std::size_t>(prompt));
    batch.num_tokens = decodes + prompt;
    // The estimate's own form: what it says of a step without rows is the cost of kStepRows of them.
    out.on_step(batch, kRow * (kStepRows + decodes) + kToken * prompt);
  }
  return out;
}

EngineLoad load_of(std::vector<QueuedWork> running, std::vector<QueuedWork> waiting, double target_s = 0) {
  EngineLoad out;
  out.budget = learned(target_s);
  out.paced = target_s > 0;
  out.step_tokens = 512;
  out.max_num_seqs = 8;
  out.kv_tokens = 1e6;
  out.time = 1'000'000'000;
  out.means.on_begun(100, 0);
  out.means.on_ended(50);
  out.running = std::move(running);
  out.waiting = std::move(waiting);
  return out;
}

QueuedWork decoding(double left) { return {.prompt_tokens = 0, .output_tokens = left}; }
QueuedWork prompt(double tokens, double output = 50) {
  return {.prompt_tokens = tokens, .output_tokens = output};
}

double step_s(double decodes, double tokens = 0) { return kRow * (kStepRows + decodes) + kToken * tokens; }

TEST(QueueForecast, BeforeAnyStepNothingIsKnown) {
  EngineLoad load = load_of({decoding(10)}, {prompt(5000)});
  load.budget = StepBudget(0, 512);
  const QueueForecast when = forecast(load, prompt(100));
  EXPECT_EQ(when.queue_s, 0);
  EXPECT_EQ(when.first_token_s, 0);
}

TEST(QueueForecast, PromptsBeforeItTakeTheirTokens) {
  const EngineLoad load = load_of({}, {prompt(400), prompt(400)});
  const QueueForecast when = forecast(load, prompt(200));
  // Two steps: 512 tokens, then 488 beside one decode.
  EXPECT_NEAR(when.first_token_s, step_s(0, 512) + step_s(1, 488), 0.1 * when.first_token_s);
  EXPECT_NEAR(when.alone_s, step_s(0, 200), 0.1 * when.alone_s);
  EXPECT_NEAR(when.queue_s, when.first_token_s - when.alone_s, 1e-9);
}

TEST(QueueForecast, AFullHouseIsWaitedForUntilOneLeaves) {
  std::vector<QueuedWork> running(8, decoding(24));
  running[3].output_tokens = 20;
  const EngineLoad load = load_of(running, {});
  const QueueForecast when = forecast(load, prompt(100));
  EXPECT_NEAR(when.first_token_s, 20 * step_s(8) + step_s(7, 100), 0.1 * when.first_token_s);
  EngineLoad longer = load;
  longer.waiting.push_back(prompt(100));
  const QueueForecast later = forecast(longer, prompt(100));
  // The next seven leave together, four steps later, of which the other's prompt is one.
  EXPECT_NEAR(later.first_token_s, when.first_token_s + 3 * step_s(8) + step_s(1, 100),
              0.1 * later.first_token_s);
}

TEST(QueueForecast, ATargetForStepsSpreadsPromptsOverMore) {
  const std::vector<QueuedWork> running(4, decoding(1000));
  const double fast = forecast(load_of(running, {}), prompt(1000)).first_token_s;
  const double paced = forecast(load_of(running, {}, 0.1), prompt(1000)).first_token_s;
  EXPECT_GT(paced, fast);
  const double tokens_a_step = (0.1 - step_s(4)) / kToken;
  EXPECT_NEAR(paced, 1000 / tokens_a_step * 0.1, 0.15 * paced);
}

TEST(QueueForecast, KvCacheIsWaitedFor) {
  EngineLoad load = load_of({decoding(30)}, {});
  load.running[0].kv_tokens = 900;
  load.kv_tokens = 1000;
  QueuedWork work = prompt(100);
  work.kv_tokens = 200;
  EXPECT_NEAR(forecast(load, work).first_token_s, 30 * step_s(1) + step_s(0, 100), 0.25);
  work.kv_tokens = 50;
  EXPECT_LT(forecast(load, work).first_token_s, 0.3);
}

TEST(QueueForecast, OnlyThoseBeforeItCount) {
  std::vector<QueuedWork> waiting(50, prompt(500));
  for (QueuedWork& work : waiting) work.rank = 5;
  const EngineLoad load = load_of({}, waiting);
  QueuedWork work = prompt(100);
  work.rank = 4;
  EXPECT_LT(forecast(load, work).queue_s, 0.05);
  work.rank = 5;
  EXPECT_GT(forecast(load, work).queue_s, 20);
}

TEST(QueueForecast, ALongQueueIsForetoldQuickly) {
  const EngineLoad load =
      load_of(std::vector<QueuedWork>(8, decoding(300)), std::vector<QueuedWork>(1024, prompt(300)));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_GT(forecast(load, prompt(10)).queue_s, 100);
  const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 20;
  std::printf("a forecast behind 1,024: %.0f us\n", each * 1e6);
  EXPECT_LT(each, 0.005);
}

Request request_of(std::size_t prompt_tokens, double timeout_s, TimeNs now) {
  Request out;
  out.prompt_token_ids.assign(prompt_tokens, 1);
  out.sampling.max_tokens = 50;
  if (timeout_s > 0) out.deadline = now + static_cast<TimeNs>(timeout_s * 1e9);
  return out;
}

// Under an order with turns only what has an earlier turn is before it.
TEST(QueueForecast, ATenantWaitsForItsOwnTurn) {
  EngineLoad load = load_of(std::vector<QueuedWork>(8, decoding(1000)), {});
  load.policy = SchedulingPolicy::fair;
  load.tenants = {{.name = "heavy", .turn = 1000, .num_running = 8},
                  {.name = "other", .turn = 500, .num_running = 1}};
  const OrderRecord heavy{.tenant = "heavy", .num_prompt_tokens = 500, .max_output_tokens = 50};
  for (int i = 0; i < 50; ++i) add_waiting(load, expected_work(load, heavy), heavy);
  EXPECT_EQ(load.find("heavy")->num_waiting, 50);
  const OrderRecord light{.tenant = "light", .num_prompt_tokens = 10, .max_output_tokens = 50};
  EXPECT_EQ(forecast(load, expected_work(load, light)).queue_s, 0)
      << "nothing of it is here: it is let in at once";
  const OrderRecord other{.tenant = "other", .num_prompt_tokens = 10, .max_output_tokens = 50};
  const double others = forecast(load, expected_work(load, other)).queue_s;
  EXPECT_GT(others, 1) << "a place has to get free";
  EXPECT_GT(forecast(load, expected_work(load, heavy)).queue_s, 2 * others);
}

TEST(CheckInTime, WhoWouldWaitLongerThanPromisedIsRefused) {
  const EngineLoad load = load_of({decoding(100)}, std::vector<QueuedWork>(10, prompt(500)));  // some 5 s
  const TimeNs now = load.time;
  EXPECT_TRUE(check_in_time(load, request_of(10, 0, now), now, 0).ok());
  EXPECT_TRUE(check_in_time(load, request_of(10, 0, now), now, 10).ok());
  const Status refused = check_in_time(load, request_of(10, 0, now), now, 1);
  EXPECT_EQ(refused.code(), StatusCode::resource_exhausted);
  EXPECT_EQ(refused.reason(), "queue_time");
  // Its own prompt does not count, nor what follows the first of its call, nor time that has gone by.
  const EngineLoad calm = load_of({decoding(100)}, {});
  EXPECT_TRUE(check_in_time(calm, request_of(5000, 0, now), now, 1).ok());
  Request follows = request_of(10, 0, now);
  follows.follows = true;
  EXPECT_TRUE(check_in_time(load, follows, now, 1).ok());
  EXPECT_TRUE(check_in_time(load, request_of(10, 0, now), now + 60'000'000'000, 1).ok());
}

TEST(CheckInTime, ADeadlineCountsTheWholeAnswer) {
  const EngineLoad load = load_of(std::vector<QueuedWork>(6, decoding(500)), {});
  const TimeNs now = load.time;
  const double whole = step_s(6, 100) + 50 * step_s(7);
  EXPECT_TRUE(check_in_time(load, request_of(100, 1.9 * whole, now), now, 0).ok());
  const Status refused = check_in_time(load, request_of(100, 0.8 * whole, now), now, 0);
  EXPECT_EQ(refused.code(), StatusCode::resource_exhausted);
  EXPECT_EQ(refused.reason(), "deadline");
  EXPECT_EQ(check_in_time(load, request_of(2000, 0.5, now), now, 0).code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(check_in_time(load, request_of(10, 0.5, now), now + 500'000'000, 0).code(),
            StatusCode::deadline_exceeded);
  // Alone it is begun whatever is known of costs, or one that was learned wrong would never be corrected.
  const EngineLoad idle = load_of({}, {});
  EXPECT_TRUE(check_in_time(idle, request_of(2000, 0.01, now), now, 1).ok());
}

TEST(AdmissionGate, CountsWhatTheEngineHasNotTakenYet) {
  AdmissionGate gate(1.0);
  const EngineLoad load = load_of({decoding(100)}, {});
  const TimeNs now = load.time;
  int pushed = 0;
  const auto push = [&](Request, std::int64_t, std::int64_t) {
    ++pushed;
    return ok_status();
  };
  EXPECT_TRUE(gate.admit(request_of(500, 0, now), now, push).ok()) << "nothing is known yet";
  gate.publish(load, 1);
  Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) status = gate.admit(request_of(500, 0, now), now, push);
  EXPECT_EQ(status.reason(), "queue_time");
  EXPECT_GE(pushed, 3);
  EXPECT_LE(pushed, 5) << "a second's prompts, and one";
  const double wait_s = gate.expected_wait(request_of(1, 0, now), now);
  EXPECT_GT(wait_s, 1);
  // Then any is refused before it is read, and told the same.
  const auto any = gate.refuse_any("", now);
  ASSERT_TRUE(any.has_value());
  EXPECT_EQ(any->first.reason(), "queue_time");
  EXPECT_NEAR(any->second, wait_s, 0.1 * wait_s);
  gate.publish(load, pushed);  // it has taken them, and they are done
  EXPECT_LT(gate.expected_wait(request_of(1, 0, now), now), 0.1);
  EXPECT_FALSE(gate.refuse_any("", now).has_value());
  EXPECT_TRUE(gate.admit(request_of(500, 0, now), now, push).ok());
  // A request that the inbox refuses does not count.
  const auto full = [](Request, std::int64_t, std::int64_t) { return resource_exhausted("full"); };
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(gate.admit(request_of(500, 0, now), now, full).ok());
  EXPECT_LT(gate.expected_wait(request_of(1, 0, now), now), 0.8);
}

// Under priorities the wait depends on the request's own, under fair shares on the tenant.
TEST(AdmissionGate, RefusesUnreadOnlyWhatIsRefusedWhateverItSays) {
  AdmissionGate gate(1.0);
  EngineLoad load =
      load_of(std::vector<QueuedWork>(8, decoding(1000)), std::vector<QueuedWork>(10, prompt(500)));
  gate.publish(load, 0);
  EXPECT_TRUE(gate.refuse_any("", load.time).has_value());
  load.policy = SchedulingPolicy::priority;
  gate.publish(load, 0);
  EXPECT_FALSE(gate.refuse_any("", load.time).has_value());
  load.policy = SchedulingPolicy::fair;
  load.tenants = {{.name = "heavy", .turn = 1000, .num_waiting = 10, .num_running = 8}};
  gate.publish(load, 0);
  EXPECT_TRUE(gate.refuse_any("heavy", load.time).has_value());
  EXPECT_FALSE(gate.refuse_any("light", load.time).has_value()) << "it is let in at once";
}

}  // namespace
}  // namespace pagoda
