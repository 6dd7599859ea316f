// Goal: grammars are compiled once, kept within a bound, and cost nobody but their sender, whatever they are.
// Method: a backend that does as its text says, stuck ones included.
#include "constraint/grammar_service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pagoda {
namespace {

using namespace std::chrono_literals;

class Nothing final : public TokenConstraintFactory {
 public:
  std::unique_ptr<TokenConstraint> make() const override { return nullptr; }
};

// "ok", "bad", "long…": turns in circles until it is given up, or "stuck…": until it is let go.
class ObedientBackend final : public GrammarBackend {
 public:
  Result<CompiledConstraint> compile(const GrammarSpec& spec,
                                     const std::atomic<bool>* given_up) const override {
    {
      std::lock_guard lock(mutex);
      seen.push_back(spec.text);
      most_at_once = std::max<int>(most_at_once, ++at_once);
    }
    if (spec.text.starts_with("stuck"))
      while (!let_go) {
      }
    if (spec.text.starts_with("long"))
      while (!*given_up) {
      }
    while (hold && !may_pass()) std::this_thread::sleep_for(1ms);
    --at_once;
    if (spec.text.starts_with("bad")) return invalid_argument("it is bad");
    return CompiledConstraint{.factory = std::make_shared<Nothing>(), .bytes = 1000};
  }
  bool may_pass() const {  // one of those that are held
    std::lock_guard lock(mutex);
    if (passes == 0) return false;
    --passes;
    return true;
  }
  void let_one_pass() {
    std::lock_guard lock(mutex);
    ++passes;
  }
  std::size_t num_seen() const {
    std::lock_guard lock(mutex);
    return seen.size();
  }
  mutable std::mutex mutex;
  mutable int passes = 0;
  mutable std::vector<std::string> seen;
  std::int64_t live_shared_bytes() const override { return shared; }
  std::atomic<bool> let_go = false, hold = false;
  std::atomic<std::int64_t> shared = 0;
  mutable std::atomic<int> at_once = 0, most_at_once = 0;
};

struct Rig {
  explicit Rig(GrammarService::Options options = {}) : service(backend, options) {}
  ~Rig() {
    backend->let_go = true;
    backend->hold = false;
  }
  std::future<Status> ask(std::string text, std::uint64_t owner = 1) {
    auto promise = std::make_shared<std::promise<Status>>();
    service.compile(
        owner, {.kind = GrammarSpec::Kind::regex, .text = std::move(text), .param = "regex"},
        [promise](Result<CompiledConstraint> got) { promise->set_value(got ? ok_status() : got.error()); });
    return promise->get_future();
  }
  // Lets so many that are held pass, each once another has begun in the place of the one before.
  void let_pass(int count) const {
    for (int i = 0; i < count; ++i) {
      const std::size_t before = backend->num_seen();
      backend->let_one_pass();
      while (backend->num_seen() == before) std::this_thread::sleep_for(1ms);
    }
  }
  std::shared_ptr<ObedientBackend> backend = std::make_shared<ObedientBackend>();
  GrammarService service;
};

Status wait(std::future<Status> future) {
  if (future.wait_for(20s) != std::future_status::ready) return internal_error("no answer");
  return future.get();
}

TEST(GrammarService, CompilesOnceAndTellsErrorsWithTheField) {
  Rig rig;
  EXPECT_TRUE(wait(rig.ask("ok")).ok());
  EXPECT_TRUE(wait(rig.ask("ok")).ok());
  const Status bad = wait(rig.ask("bad"));
  EXPECT_EQ(bad.code(), StatusCode::invalid_argument);
  EXPECT_EQ(bad.param(), "regex");
  EXPECT_EQ(bad.message(), "'regex' cannot be used: it is bad.");
  EXPECT_EQ(rig.backend->seen, std::vector<std::string>({"ok", "bad"}));
  EXPECT_EQ(rig.service.counts().cache_hits, 1);
}

TEST(GrammarService, EqualOnesAtTheSameTimeAreOne) {
  Rig rig;
  rig.backend->hold = true;
  std::vector<std::future<Status>> all;
  for (int i = 0; i < 5; ++i) all.push_back(rig.ask("ok", static_cast<std::uint64_t>(i)));
  rig.backend->hold = false;
  for (auto& one : all) EXPECT_TRUE(wait(std::move(one)).ok());
  EXPECT_EQ(rig.backend->seen.size(), 1u);
}

TEST(GrammarService, TheCacheIsBounded) {
  Rig rig({.cache_bytes = 5000});
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(wait(rig.ask("ok" + std::to_string(i))).ok());
  EXPECT_LE(rig.service.counts().cached_bytes, 5000);
  EXPECT_EQ(rig.service.counts().cached, 3);
  (void)wait(rig.ask("ok49"));
  (void)wait(rig.ask("ok0"));
  EXPECT_EQ(rig.backend->seen.size(), 51u);  // the last was still there, the first was not
}

TEST(GrammarService, WhatGrammarsShareCountsOnceAgainstTheBound) {
  Rig rig({.cache_bytes = 5000});
  rig.backend->shared = 2000;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(wait(rig.ask("ok" + std::to_string(i))).ok());
  EXPECT_EQ(rig.service.counts().cached, 2);
  rig.backend->shared = 6000;
  EXPECT_TRUE(wait(rig.ask("ok")).ok());
  EXPECT_EQ(rig.service.counts().cached, 0);
}

TEST(GrammarService, AStuckOneCostsItsSenderAlone) {
  Rig rig({.max_compile_time = 50ms});
  std::future<Status> stuck = rig.ask("stuck");
  EXPECT_TRUE(wait(rig.ask("ok", 2)).ok());
  const Status status = wait(std::move(stuck));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("too long"), std::string::npos);
  EXPECT_EQ(rig.service.counts().stuck, 1);
  rig.backend->let_go = true;
  while (rig.service.counts().stuck > 0) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(wait(rig.ask("ok2")).ok());
}

TEST(GrammarService, OneThatIsGivenUpEnds) {
  Rig rig({.max_compile_time = 30ms});
  for (int i = 0; i < 6; ++i) {  // more than may be stuck
    EXPECT_EQ(wait(rig.ask("long" + std::to_string(i))).code(), StatusCode::invalid_argument);
    while (rig.service.counts().stuck > 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(rig.backend->at_once, 0);
}

TEST(GrammarService, WhenAllThreadsAreStuckOthersAreRefusedAndThenServedAgain) {
  Rig rig({.max_compile_time = 30ms, .max_stuck = 1});
  EXPECT_TRUE(wait(rig.ask("ok", 2)).ok());
  std::future<Status> first = rig.ask("stuck1"), second = rig.ask("stuck2");
  EXPECT_EQ(wait(std::move(first)).code(), StatusCode::invalid_argument);
  EXPECT_EQ(wait(std::move(second)).code(), StatusCode::invalid_argument);
  EXPECT_EQ(wait(rig.ask("more")).code(), StatusCode::resource_exhausted);
  EXPECT_TRUE(wait(rig.ask("ok", 2)).ok());  // compiled grammars are there
  rig.backend->let_go = true;
  while (rig.service.counts().stuck > 0) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(wait(rig.ask("more")).ok());
}

TEST(GrammarService, OwnersTakeTurnsAndEachMayWaitForSoMany) {
  Rig rig({.max_waiting = 6, .max_waiting_of_owner = 4});
  rig.backend->hold = true;
  std::vector<std::future<Status>> all;
  all.push_back(rig.ask("begun"));
  while (rig.service.counts().waiting > 0) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 4; ++i) all.push_back(rig.ask("a" + std::to_string(i), 1));
  EXPECT_EQ(wait(rig.ask("a4", 1)).code(), StatusCode::resource_exhausted);
  all.push_back(rig.ask("b0", 2));
  all.push_back(rig.ask("c0", 3));
  EXPECT_EQ(wait(rig.ask("d0", 4)).code(), StatusCode::resource_exhausted);
  rig.backend->hold = false;
  for (auto& one : all) EXPECT_TRUE(wait(std::move(one)).ok());
  EXPECT_EQ(rig.backend->seen, std::vector<std::string>({"begun", "a0", "b0", "c0", "a1", "a2", "a3"}));
}

TEST(GrammarService, OwnersWhoComeLaterStandBehindThoseWhoWait) {
  Rig rig;
  rig.backend->hold = true;
  std::vector<std::future<Status>> all;
  all.push_back(rig.ask("first", 50));
  while (rig.backend->num_seen() < 1) std::this_thread::sleep_for(1ms);
  all.push_back(rig.ask("fresh", 51));
  all.push_back(rig.ask("kept", 1));
  for (std::uint64_t owner = 52; owner < 60; ++owner) {
    all.push_back(rig.ask("fresh" + std::to_string(owner), owner));
    const std::size_t seen = rig.backend->num_seen();
    rig.backend->let_one_pass();
    while (rig.backend->num_seen() == seen) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(rig.backend->seen.at(2), "kept")
      << "as if it kept its connection beside clients that open one a call";
  rig.backend->hold = false;
  for (auto& one : all) EXPECT_TRUE(wait(std::move(one)).ok());
}

TEST(GrammarService, SeveralAreCompiledAtOnceAndNoMore) {
  Rig rig({.max_at_once = 3});
  rig.backend->hold = true;
  std::vector<std::future<Status>> all;
  for (int i = 0; i < 8; ++i) all.push_back(rig.ask("ok" + std::to_string(i)));
  while (rig.backend->at_once < 3) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(rig.service.counts().waiting, 5);
  rig.let_pass(5);
  rig.backend->hold = false;
  for (auto& one : all) EXPECT_TRUE(wait(std::move(one)).ok());
  EXPECT_EQ(rig.service.counts().compiled, 8);
  EXPECT_EQ(rig.service.counts().cached, 8);
  EXPECT_EQ(rig.backend->most_at_once, 3);
}

TEST(GrammarService, OwnersTakeTurnsWithSeveralThreads) {
  Rig rig({.max_at_once = 2});
  rig.backend->hold = true;
  std::vector<std::future<Status>> all;
  for (int i = 0; i < 2; ++i) all.push_back(rig.ask("begun" + std::to_string(i)));
  while (rig.backend->at_once < 2) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 6; ++i) all.push_back(rig.ask("a" + std::to_string(i), 1));
  all.push_back(rig.ask("b0", 2));
  all.push_back(rig.ask("c0", 3));
  for (const char* const next : {"a0", "b0", "c0"}) {
    const std::size_t before = rig.backend->num_seen();
    rig.backend->let_one_pass();
    while (rig.backend->num_seen() == before) std::this_thread::sleep_for(1ms);
    std::lock_guard lock(rig.backend->mutex);
    EXPECT_EQ(rig.backend->seen.back(), next);
  }
  rig.backend->hold = false;
  for (auto& one : all) EXPECT_TRUE(wait(std::move(one)).ok());
}

// One is given up while another, which is slow but within its time, goes on and is answered.
TEST(GrammarService, GivingUpOneLeavesTheOthersAlone) {
  Rig rig({.max_compile_time = 50ms, .max_at_once = 2});
  rig.backend->hold = true;  // asleep: takes no processor time
  std::future<Status> slow = rig.ask("ok", 2);
  while (rig.backend->at_once < 1) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(wait(rig.ask("stuck")).code(), StatusCode::invalid_argument);
  EXPECT_EQ(slow.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(rig.service.counts().given_up, 1);
  // In the stuck one's place another has begun: two go on beside it.
  std::future<Status> next = rig.ask("ok2", 2);
  while (rig.backend->at_once < 3) std::this_thread::sleep_for(1ms);
  rig.backend->hold = false;
  EXPECT_TRUE(wait(std::move(slow)).ok());
  EXPECT_TRUE(wait(std::move(next)).ok());
  rig.backend->let_go = true;
  while (rig.service.counts().stuck > 0) std::this_thread::sleep_for(1ms);
  // And when it is back there are not three.
  rig.backend->hold = true;
  rig.backend->most_at_once = 0;
  std::vector<std::future<Status>> all;
  for (int i = 0; i < 6; ++i) all.push_back(rig.ask("more" + std::to_string(i)));
  while (rig.backend->at_once < 2) std::this_thread::sleep_for(1ms);
  rig.let_pass(4);
  rig.backend->hold = false;
  for (auto& one : all) EXPECT_TRUE(wait(std::move(one)).ok());
  EXPECT_EQ(rig.backend->most_at_once, 2);
}

TEST(GrammarService, WithFewerThreadsThanItHadItGoesOn) {
  Rig rig({.max_compile_time = 30ms, .max_at_once = 2, .max_stuck = 0});
  EXPECT_EQ(wait(rig.ask("stuck1")).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(wait(rig.ask("ok1")).ok());  // on the thread that is left
  EXPECT_EQ(wait(rig.ask("stuck2")).code(), StatusCode::invalid_argument);
  EXPECT_EQ(wait(rig.ask("ok2")).code(), StatusCode::resource_exhausted);
  rig.backend->let_go = true;
  while (rig.service.counts().stuck > 0) std::this_thread::sleep_for(1ms);
  rig.backend->hold = true;
  std::future<Status> third = rig.ask("ok3"), fourth = rig.ask("ok4");
  while (rig.backend->at_once < 2) std::this_thread::sleep_for(1ms);
  rig.backend->hold = false;
  EXPECT_TRUE(wait(std::move(third)).ok());
  EXPECT_TRUE(wait(std::move(fourth)).ok());
}

TEST(GrammarService, MayEndWhileSeveralAreCompiled) {
  std::future<Status> running[2], waits;
  {
    Rig rig({.max_at_once = 2});
    rig.backend->hold = true;
    for (int i = 0; i < 2; ++i) running[i] = rig.ask("ok" + std::to_string(i));
    while (rig.backend->at_once < 2) std::this_thread::sleep_for(1ms);
    waits = rig.ask("never");
    rig.backend->hold = false;
  }
  for (auto& one : running) EXPECT_TRUE(wait(std::move(one)).ok());
  try {
    (void)waits.get();  // dropped, or it was in time
  } catch (const std::future_error& error) {
    EXPECT_EQ(error.code(), std::future_errc::broken_promise);
  }
}

TEST(GrammarService, TooLongATextIsRefusedAtOnce) {
  Rig rig;
  EXPECT_EQ(wait(rig.ask(std::string(70'000, 'a'))).param(), "regex");
  EXPECT_TRUE(rig.backend->seen.empty());
}

}  // namespace
}  // namespace pagoda
