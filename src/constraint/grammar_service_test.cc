// Goal: grammars are compiled once, kept within a bound, and cost nobody but their sender, whatever they are.
// Method: a backend that does as its text says, stuck ones included.
#include "constraint/grammar_service.h"

#include <gtest/gtest.h>

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

// "ok", "bad", or "stuck…": turns in circles until it is let go.
class ObedientBackend final : public GrammarBackend {
 public:
  Result<CompiledConstraint> compile(const GrammarSpec& spec) const override {
    {
      std::lock_guard lock(mutex);
      seen.push_back(spec.text);
    }
    if (spec.text.starts_with("stuck"))
      while (!let_go) {
      }
    while (hold) std::this_thread::sleep_for(1ms);
    if (spec.text.starts_with("bad")) return invalid_argument("it is bad");
    return CompiledConstraint{.factory = std::make_shared<Nothing>(), .bytes = 1000};
  }
  mutable std::mutex mutex;
  mutable std::vector<std::string> seen;
  std::int64_t live_shared_bytes() const override { return shared; }
  std::atomic<bool> let_go = false, hold = false;
  std::atomic<std::int64_t> shared = 0;
};

struct Rig {
  explicit Rig(GrammarService::Options options = {}) : service(backend, options) {}
  ~Rig() {
    backend->let_go = true;
    backend->hold = false;
  }
  std::future<Status> ask(std::string text, std::uint64_t owner = 1) {
    auto promise = std::make_shared<std::promise<Status>>();
    service.compile(owner, {.kind = GrammarSpec::Kind::regex, .text = std::move(text), .param = "regex"},
                    [promise](Result<GrammarService::Factory> got) {
                      promise->set_value(got ? ok_status() : got.error());
                    });
    return promise->get_future();
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

TEST(GrammarService, WhenAllThreadsAreStuckOthersAreRefusedAndThenServedAgain) {
  Rig rig({.max_compile_time = 30ms, .max_stuck = 1});
  std::future<Status> first = rig.ask("stuck1"), second = rig.ask("stuck2"), third = rig.ask("ok", 2);
  EXPECT_EQ(wait(std::move(first)).code(), StatusCode::invalid_argument);
  EXPECT_EQ(wait(std::move(second)).code(), StatusCode::invalid_argument);
  (void)wait(std::move(third));  // before, or refused
  EXPECT_EQ(wait(rig.ask("more")).code(), StatusCode::resource_exhausted);
  EXPECT_TRUE(wait(rig.ask("ok", 2)).ok());  // what is compiled is there
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
  EXPECT_EQ(rig.backend->seen, std::vector<std::string>({"begun", "b0", "c0", "a0", "a1", "a2", "a3"}));
}

TEST(GrammarService, TooLongATextIsRefusedAtOnce) {
  Rig rig;
  EXPECT_EQ(wait(rig.ask(std::string(70'000, 'a'))).param(), "regex");
  EXPECT_TRUE(rig.backend->seen.empty());
}

}  // namespace
}  // namespace pagoda
