#pragma once
// ModelRunner: carries out a ScheduledBatch: block copies, forward pass, sampling. This interface is all that
// the engine sees; the simulator implements it with a cost model.
//     submit(batch) -> wait(): batches run one after the other, and results come in the same order. A runner
//     whose max_in_flight() is 1 gets the next batch only after wait().
// Threads: the engine thread only.
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "request/rotation_rule.h"
#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  // True if the runner computes vectors (request/work.h) instead of drawing tokens. Constant; any thread.
  virtual bool pools() const { return false; }

  // Returns the rule that gives the rotation of each sequence's queries and keys. Constant; any thread.
  virtual RotationRule rotation_rule() const { return {}; }

  virtual StepResult run(const ScheduledBatch& batch) = 0;
  // Maximum number of submitted batches whose wait() has not returned. If more than one, a batch may contain
  // tokens that the previous batch draws (ScheduledSequence::drawn_at).
  virtual std::int32_t max_in_flight() const { return 1; }
  // Reads the batch's views before returning. SampleSpec::params, masks and `pooled` must stay valid until
  // wait().
  virtual void submit(const ScheduledBatch& batch) { done_ = run(batch); }
  virtual StepResult wait() { return std::move(done_); }

  // Called when idle: does a few milliseconds of work that later batches would otherwise wait for. Returns
  // false when nothing is left to do.
  virtual bool prepare_ahead() { return false; }

  // Called between steps: calls body(0), ..., body(count - 1) once each, concurrently, on the threads that
  // compute steps. Returns when all calls are done.
  using Body = std::function<void(std::int64_t)>;
  virtual void for_each(std::int64_t count, const Body& body) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }

  // Frees the memory of the weights; with KvContent::drop, also that of the KV cache. Nothing runs until
  // load_weights(). Idempotent. unimplemented: the runner cannot release memory.
  enum class KvContent { keep, drop };
  virtual Status release_memory(KvContent) { return unimplemented("This model runner keeps its memory."); }
  // An error if the weights could not be loaded or have changed; the call may be retried.
  virtual Status load_weights() { return ok_status(); }

  // True if run() has tier news to return (StepResult::tier_news); the engine then runs an empty batch to
  // collect it. The function passed to on_tier_news() is called on any thread when news arrives; null: no
  // callback.
  virtual bool has_tier_news() const { return false; }
  virtual void on_tier_news(std::function<void()>) {}
  // Forgets rows in tiers. Transfers in flight are cancelled without a report. Rows that remain in a tier are
  // rediscovered.
  enum class TierRows : std::uint8_t { all, in_this_process };
  virtual void erase_tiers(TierRows) {}
  // Erases the given rows; `done` is called once, on any thread.
  virtual void erase_from_tiers(TierErase, std::function<void(Status)> done) { done(ok_status()); }

  // A runner on several ranks is polled between steps, even when the engine is idle, to check that all ranks
  // are alive. If heartbeat() fails, nothing can run any more. An interval of 0: no polling needed.
  virtual std::chrono::milliseconds heartbeat_interval() const { return std::chrono::milliseconds(0); }
  virtual Status heartbeat() { return ok_status(); }

 private:
  StepResult done_;  // for runners that implement only run()
};

}  // namespace pagoda
