#include "server/live_desk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "api/json.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// An engine whose state is a step number, told as an engine would: when it differs from what was seen.
class SteppingEngine final : public EngineClient {
 public:
  const EngineLimits& limits() const override { return limits_; }
  Status submit(Request, std::shared_ptr<OutputSink>) override { return unavailable("no"); }
  void abort(RequestId) override {}
  void abort_sequence(RequestId, std::int32_t) override {}
  bool healthy() const override { return alive; }
  void live_state(std::int64_t seen, LiveDone done) override {
    std::lock_guard lock(mutex_);
    ++asked;
    if (!alive) return done(unavailable("dead"));
    seen_ = seen;
    done_ = std::move(done);
    tell();
  }
  void live_every_step(bool wanted) override {
    std::lock_guard lock(mutex_);
    every_step_ = wanted;
    changed_ = true;
    tell();
  }
  void step() {
    std::lock_guard lock(mutex_);
    ++step_;
    if (every_step_) keep();
    tell();
  }
  void die() {
    std::lock_guard lock(mutex_);
    alive = false;
    if (done_) std::exchange(done_, nullptr)(unavailable("dead"));
  }
  std::atomic<bool> alive{true};
  std::atomic<int> asked{0};

 private:
  void tell() {
    if (!done_ || (seen_ == step_ && !changed_)) return;
    if (std::exchange(changed_, false) || states_.empty()) keep();
    std::exchange(done_, nullptr)(std::exchange(states_, {}));
  }
  void keep() {
    auto state = std::make_shared<EngineSnapshot>();
    state->step = step_;
    state->every_step = every_step_;
    state->num_blocks = 4;
    for (; told_ < step_; ++told_) state->steps.push_back({.number = told_ + 1});
    state->ended.resize(state->steps.size());  // news of its own, told once
    states_.push_back(std::move(state));
  }
  EngineLimits limits_;
  std::mutex mutex_;
  LiveDone done_;
  LiveStates states_;
  bool every_step_ = false, changed_ = false;
  std::int64_t seen_ = -1, step_ = 0, told_ = 0;
};

// Frames as they come; each must follow the one before.
struct Follower {
  std::shared_ptr<LiveReader> reader;
  std::int64_t number = -1, step = -1, snapshots = 0, steps = 0, most_steps = 0;  // in all, in one delta
  bool open = true, broken = false;

  void look() {
    std::string text;
    open = reader->take(text);
    for (std::size_t at = 0, end; (end = text.find("\n\n", at)) != std::string::npos; at = end + 2) {
      ASSERT_EQ(text.substr(at, 6), "data: ");
      const auto frame = parse_json(text.substr(at + 6, end - at - 6));
      ASSERT_TRUE(frame);
      const auto& o = frame->as_object();
      if (o.at("type") == "hello") continue;
      const bool snapshot = o.at("type") == "snap";
      snapshots += snapshot ? 1 : 0;
      const std::int64_t told = std::ssize(o.at("steps").as_array());
      steps += told;
      if (!snapshot) most_steps = std::max(most_steps, told);
      if (!snapshot && o.at("n").as_int64() != number + 1) broken = true;
      number = o.at("n").as_int64();
      step = o.at("step").as_int64();
    }
  }
  bool reach(std::int64_t wanted) {
    for (int i = 0; i < 200 && step < wanted; ++i) {
      look();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return step >= wanted;
  }
};

Follower follow(LiveDesk& desk, LivePace pace = LivePace::tenths) {
  auto reader = desk.subscribe(pace, [] {});
  EXPECT_TRUE(reader);
  return {.reader = *reader};
}

TEST(LiveDesk, AsksNothingWhileNobodyReadsAndFollowsWithoutAGap) {
  SteppingEngine engine;
  LiveDesk desk(engine, 2, 1 << 16);
  engine.step();
  EXPECT_EQ(engine.asked, 0);
  Follower one = follow(desk);
  EXPECT_TRUE(one.reach(1));
  engine.step();
  EXPECT_TRUE(one.reach(2));
  Follower two = follow(desk);  // the engine rests, so the desk looks around by itself
  EXPECT_TRUE(two.reach(2));
  one.look();
  EXPECT_EQ(one.steps, 2) << "an engine that rests has no news";
  for (int i = 0; i < 5; ++i) engine.step();
  EXPECT_TRUE(one.reach(7) && two.reach(7));
  EXPECT_FALSE(one.broken || two.broken);
  EXPECT_EQ(one.snapshots, 1);
  EXPECT_EQ(two.snapshots, 1);
}

TEST(LiveDesk, AReaderOfEveryStepGetsAFrameForEach) {
  SteppingEngine engine;
  LiveDesk desk(engine, 3, 1 << 16);
  Follower usual = follow(desk);
  EXPECT_TRUE(usual.reach(0));
  for (int i = 0; i < 50; ++i) engine.step();  // before anyone wants each of them
  Follower recorder = follow(desk, LivePace::every_step);
  EXPECT_TRUE(recorder.reach(50)) << "its snapshot is one that the next step follows";
  const std::int64_t before = recorder.steps;
  for (int i = 0; i < 50; ++i) engine.step();
  EXPECT_TRUE(recorder.reach(100) && usual.reach(100));
  EXPECT_EQ(recorder.steps - before, 50);
  EXPECT_EQ(recorder.most_steps, 1);
  EXPECT_EQ(recorder.snapshots, 1);
  EXPECT_FALSE(recorder.broken || usual.broken);
  EXPECT_EQ(usual.steps, 100);
  recorder.reader.reset();
  usual.most_steps = 0;
  for (int i = 0; i < 300 && usual.most_steps < 2; ++i) {  // the desk sees that it has gone
    engine.step();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    usual.look();
  }
  EXPECT_GT(usual.most_steps, 1);
}

TEST(LiveDesk, HasAPlaceForSoManyAndTakesItBack) {
  SteppingEngine engine;
  LiveDesk desk(engine, 2, 1 << 16);
  Follower one = follow(desk), two = follow(desk);
  EXPECT_EQ(desk.subscribe(LivePace::tenths, [] {}).error().code(), StatusCode::resource_exhausted);
  two.reader.reset();
  Follower three = follow(desk);
  EXPECT_TRUE(three.reach(0));
}

TEST(LiveDesk, WhoDoesNotKeepUpBeginsAnewWithoutAQueue) {
  SteppingEngine engine;
  LiveDesk desk(engine, 2, 600);
  Follower slow = follow(desk), quick = follow(desk);
  for (int i = 1; i <= 12; ++i) {
    engine.step();
    EXPECT_TRUE(quick.reach(i));
  }
  std::string text;
  EXPECT_TRUE(slow.reader->take(text));
  EXPECT_LT(text.size(), 2000u);
  EXPECT_EQ(text.find("hello"), text.rfind("hello"));
  EXPECT_FALSE(quick.broken);
}

TEST(LiveDesk, EndsWithTheEngineAndWithItself) {
  SteppingEngine engine;
  auto desk = std::make_unique<LiveDesk>(engine, 2, 1 << 16);
  Follower one = follow(*desk);
  EXPECT_TRUE(one.reach(0));
  engine.die();
  for (int i = 0; i < 200 && one.open; ++i) {
    one.look();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(one.open);
  desk.reset();
}

}  // namespace
}  // namespace pagoda
