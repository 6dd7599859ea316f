#pragma once
// AsyncModelRunner: runs the batches of another runner one after the other on its own thread, so that the
// engine can plan the next step while the current one runs. It copies all data that a batch points to, and
// fills in the tokens that the previous batch drew before it runs the next. The wrapped runner therefore
// never sees kTokenInFlight, and computes exactly what it would for the same batches without overlap.
//     submit -> submit -> wait -> submit -> wait ...; every other call blocks until no batch is running
// The thread adds no parallelism to the computation: the wrapped runner's own pool or device does the work.
// Threads: one caller, the engine thread. Callbacks of on_tier_news() and erase_from_tiers() run where the
// wrapped runner calls them.
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
  ~AsyncModelRunner() override;  // waits until all submitted batches have run

  bool pools() const override { return runner_->pools(); }
  RotationRule rotation_rule() const override { return runner_->rotation_rule(); }
  std::int32_t max_in_flight() const override { return kMaxInFlight; }
  void submit(const ScheduledBatch& batch) override;
  StepResult wait() override;
  StepResult run(const ScheduledBatch& batch) override;
  // Blocks until no batch is running. Results of finished batches still have to be collected with wait().
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
    std::atomic<std::uint64_t>* beats = nullptr;  // the submitting thread's counter
  };
  ModelRunner& settled() {
    settle();
    return *runner_;
  }
  void loop();
  void carry_out(Held& held);

  const std::unique_ptr<ModelRunner> runner_;
  std::array<Held, kMaxInFlight> held_;  // batch number n at n % kMaxInFlight
  // Used by the worker thread: the tokens that the latest batch drew, one per sequence, and the latest
  // failure.
  std::vector<TokenId> drawn_;
  Status failed_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t num_submitted_ = 0, num_run_ = 0, num_waited_ = 0;  // guarded by mutex_, like stopping_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pagoda
