// A request that killed an engine kills no second one: the failure of a step, a crash of the process, a kill
// from outside, and a file that is damaged.
#include "engine/poison_record.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

class PoisonRecordTest : public ::testing::Test {
 protected:
  PoisonRecordTest() : path_(::testing::TempDir() + concat("poison-", getpid(), "-", ++count)) {}
  ~PoisonRecordTest() override { std::remove(path_.c_str()); }
  std::unique_ptr<PoisonRecord> open() {
    auto record = PoisonRecord::open(path_, [this] { return now_; });
    EXPECT_TRUE(record) << (record ? "" : record.error().message());
    return *std::move(record);
  }
  static Request request(TokenId token) { return fake::make_request(1, {token, 2, 3}, 4); }
  // Runs a child process on the record and returns how it ended.
  int in_child(const std::function<void(PoisonRecord&)>& act) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit no_core{};
      setrlimit(RLIMIT_CORE, &no_core);
      auto record = PoisonRecord::open(path_, [] { return std::int64_t{1000}; });
      if (!record) _exit(9);
      (*record)->mark_fatal_signals();
      act(**record);
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
  }

  static inline int count = 0;
  const std::string path_;
  std::int64_t now_ = 1000;
};

// Fails where a step has a certain token, as a kernel may.
class Brittle final : public ModelRunner {
 public:
  Brittle(std::unique_ptr<ModelRunner> inner, TokenId poison) : inner_(std::move(inner)), poison_(poison) {}
  StepResult run(const ScheduledBatch& batch) override {
    for (const ScheduledSequence& sequence : batch.sequences) {
      if (std::ranges::find(sequence.tokens, poison_) == sequence.tokens.end()) continue;
      StepResult out;
      out.status = internal_error("a kernel failed");
      return out;
    }
    return inner_->run(batch);
  }

 private:
  std::unique_ptr<ModelRunner> inner_;
  TokenId poison_;
};

TEST_F(PoisonRecordTest, OneEngineDiesOfItAndNoSecondOne) {
  constexpr TokenId kPoison = 29;
  for (int life = 0; life < 2; ++life) {
    SCOPED_TRACE(life);
    const auto record = open();
    fake::Options options;
    EngineParts parts = fake::make_parts(options);
    parts.runner = std::make_unique<Brittle>(
        std::make_unique<fake::FakeModelRunner>(options.engine.block_size, options.num_blocks), kPoison);
    fake::ManualClock clock;
    MetricsRegistry metrics;
    parts.poison = record.get();
    EngineCore core(options.engine, std::move(parts), clock, metrics);
    Request good = request(5), bad = request(kPoison);
    good.id = RequestId{7};
    bad.id = RequestId{8};
    auto answer = std::make_shared<fake::Collector>(), last = std::make_shared<fake::Collector>();
    ASSERT_TRUE(core.submit(std::move(good), answer).ok());
    while (!core.idle()) core.step();
    EXPECT_TRUE(answer->error.ok());
    const Status submitted = core.submit(std::move(bad), last);
    if (life == 0) {
      ASSERT_TRUE(submitted.ok());
      core.step();
      EXPECT_FALSE(core.status().ok());
      core.fail_all(core.status());
      EXPECT_FALSE(last->error.ok());
    } else {
      EXPECT_EQ(submitted.reason(), "poison_request");
      EXPECT_TRUE(core.status().ok());
    }
  }
}

TEST_F(PoisonRecordTest, ACrashIsRememberedAndAKillIsNot) {
  const RequestDigest digest = digest_of(request(1));
  EXPECT_EQ(in_child([&](PoisonRecord& record) {
              record.begin(std::span(&digest, 1));
              raise(SIGKILL);
            }),
            SIGKILL);
  EXPECT_FALSE(open()->refuses(request(1)));
  EXPECT_EQ(in_child([&](PoisonRecord& record) {
              record.begin(std::span(&digest, 1));
              record.end();
              std::abort();
            }),
            SIGABRT);
  EXPECT_FALSE(open()->refuses(request(1))) << "it was not being computed";
  EXPECT_EQ(in_child([&](PoisonRecord& record) {
              record.begin(std::span(&digest, 1));
              std::abort();
            }),
            SIGABRT);
  EXPECT_TRUE(open()->refuses(request(1)));
  EXPECT_FALSE(open()->refuses(request(2)));
}

TEST_F(PoisonRecordTest, EachEngineHasAStepOfItsOwn) {
  const RequestDigest first = digest_of(request(1)), second = digest_of(request(2));
  {
    const auto record = open();
    record->begin(std::span(&first, 1), 0);
    record->begin(std::span(&second, 1), 1);
    record->condemn(1);
    record->end(1);
    EXPECT_TRUE(record->refuses(request(2)));
    EXPECT_FALSE(record->refuses(request(1))) << "its engine goes on";
  }
  EXPECT_EQ(in_child([&](PoisonRecord& record) {
              const RequestDigest third = digest_of(request(3));
              record.begin(std::span(&first, 1), 0);
              record.begin(std::span(&third, 1), PoisonRecord::kMaxEngines - 1);
              std::abort();
            }),
            SIGABRT);
  EXPECT_TRUE(open()->refuses(request(1)));
  EXPECT_TRUE(open()->refuses(request(3))) << "it may have been either";
  now_ += 601;
  EXPECT_FALSE(open()->refuses(request(1)));
  EXPECT_TRUE(open()->refuses(request(2))) << "it was alone when its engine failed";
}

TEST_F(PoisonRecordTest, AmongOthersItIsRefusedForAWhileOnly) {
  const RequestDigest several[] = {digest_of(request(1)), digest_of(request(2))};
  const RequestDigest one = digest_of(request(3));
  {
    const auto record = open();
    record->begin(several);
    record->condemn();
    record->begin(std::span(&one, 1));
    record->condemn();
    record->end();
    EXPECT_TRUE(record->refuses(request(2)));
  }
  now_ += 601;
  EXPECT_FALSE(open()->refuses(request(2)));
  EXPECT_TRUE(open()->refuses(request(3)));
  now_ += 86'400;
  EXPECT_FALSE(open()->refuses(request(3)));
}

TEST_F(PoisonRecordTest, IsBoundedAndTrustsNoFile) {
  {
    const auto record = open();
    for (TokenId token = 0; token < 1000; ++token) {
      const RequestDigest digest = digest_of(request(token));
      record->begin(std::span(&digest, 1));
      record->condemn();
    }
    EXPECT_EQ(record->num_condemned(), 256);
    EXPECT_TRUE(record->refuses(request(999)));
    EXPECT_FALSE(record->refuses(request(0))) << "the oldest go first";
    const auto second = PoisonRecord::open(path_, [] { return std::int64_t{0}; });
    EXPECT_FALSE(second) << "it is another's";
  }
  for (const char fill : {'\0', '\xff', 'x'}) {
    {
      std::ofstream file(path_, std::ios::binary);
      file << std::string(100'000, fill);
    }
    const auto record = open();
    EXPECT_EQ(record->num_condemned(), 0);
    EXPECT_FALSE(record->refuses(request(1)));
  }
  EXPECT_FALSE(PoisonRecord::open("/nowhere/at/all", [] { return std::int64_t{0}; }));
}

TEST(RequestDigest, TellsPromptsApart) {
  const auto digest = [](std::vector<TokenId> prompt) {
    return digest_of(fake::make_request(1, std::move(prompt), 4));
  };
  EXPECT_EQ(digest({1, 2, 3}), digest({1, 2, 3}));
  EXPECT_NE(digest({1, 2, 3}), digest({1, 2}));
  EXPECT_NE(digest({1, 2, 3}), digest({3, 2, 1}));
  EXPECT_NE(digest({0}), digest({0, 0}));
}

}  // namespace
}  // namespace pagoda
