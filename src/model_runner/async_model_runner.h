#pragma once
// AsyncModelRunner: runs the batches of another runner on a thread of its own, one after the other, so that
// the engine can plan a step while the one before it runs. It keeps copies of what batches point to, and puts
// the tokens that a batch draws into the next one before that is run: the runner behind it never sees
// kTokenInFlight, and computes what it would have computed for the same batches one by one.
//     submit -> submit -> wait -> submit -> wait ...; everything else waits until no batch is being run
// It adds no thread to the computation: the runner's own pool does the work, or its device.
// Threads: one caller, the engine thread; the functions of `on_tier_news` and `erase_from_tiers` as the
// runner behind it says.
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "model_runner/held_batch.h"
#include "model_runner/model_runner.h"

namespace pagoda {

class AsyncModelRunner final : public ModelRunner {
 public:
  explicit AsyncModelRunner(std::unique_ptr<ModelRunner> runner);
  ~AsyncModelRunner() override;  // once the batches that it was given have been run

  bool pools() const override { return runner_->pools(); }
  RotationRule rotation_rule() const override { return runner_->rotation_rule(); }
  std::int32_t max_in_flight() const override { return kMaxInFlight; }
  void submit(const ScheduledBatch& batch) override;
  StepResult wait() override;
  StepResult run(const ScheduledBatch& batch) override;
  // Returns when no batch is being run; what has been drawn is still to be waited for.
  void settle();

  bool prepare_ahead() override { return settled().prepare_ahead(); }
  void for_each(std::int64_t count, const Body& body) override { settled().for_each(count, body); }
  Status release_memory(KvContent content) override { return settled().release_memory(content); }
  Status load_weights() override { return settled().load_weights(); }
  bool has_tier_news() const override { return runner_->has_tier_news(); }
  void on_tier_news(std::function<void()> wake) override { settled().on_tier_news(std::move(wake)); }
  void erase_tiers(TierRows which) override { settled().erase_tiers(which); }
  void erase_from_tiers(TierErase what, std::function<void(Status)> done) override {
    settled().erase_from_tiers(std::move(what), std::move(done));
  }
  std::chrono::milliseconds heartbeat_interval() const override { return runner_->heartbeat_interval(); }
  Status heartbeat() override { return settled().heartbeat(); }

 private:
  static constexpr std::int32_t kMaxInFlight = 2;
  struct Held {
    HeldBatch batch;
    StepResult result;
    std::atomic<std::uint64_t>* beats = nullptr;  // the submitting thread's
  };
  ModelRunner& settled() {
    settle();
    return *runner_;
  }
  void loop();
  void carry_out(Held& held);

  const std::unique_ptr<ModelRunner> runner_;
  std::array<Held, kMaxInFlight> held_;  // batch number n at n % kMaxInFlight
  // The thread's: what the latest batch has drawn, one for each sequence; and its failure, the last.
  std::vector<TokenId> drawn_;
  Status failed_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t num_submitted_ = 0, num_run_ = 0, num_waited_ = 0;  // guarded, as stopping_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pagoda
