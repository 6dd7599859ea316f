#pragma once
// ModelRunner: carries out a ScheduledBatch: block copies, forward pass, sampling. The engine sees only
// this interface; the simulator implements it with a cost model.
//     submit(batch) -> wait(): the results come in the order of the batches, which are carried out one after
//     the other. A runner of max_in_flight() 1 is waited for before it gets the next.
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
  // Whether it makes vectors (request/work.h); then it draws no tokens. Constant; any thread.
  virtual bool pools() const { return false; }

  // Which rotation of queries and keys each of its sequences needs. Constant; any thread.
  virtual RotationRule rotation_rule() const { return {}; }

  virtual StepResult run(const ScheduledBatch& batch) = 0;
  // How many batches it may have been given and not been waited for. With more than one, a batch may hold
  // tokens that the one before it draws (ScheduledSequence::drawn_at).
  virtual std::int32_t max_in_flight() const { return 1; }
  // Reads the batch's views before it returns; SampleSpec::params, masks and `pooled` are valid until wait().
  virtual void submit(const ScheduledBatch& batch) { done_ = run(batch); }
  virtual StepResult wait() { return std::move(done_); }

  // For idle time: does a few milliseconds of what later batches would wait for. False when nothing is left.
  virtual bool prepare_ahead() { return false; }

  // Between steps: calls body(0), ..., body(count - 1), each once, on the threads that compute steps, several
  // at the same time; returns when all are done.
  using Body = std::function<void(std::int64_t)>;
  virtual void for_each(std::int64_t count, const Body& body) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }

  // Gives the weights' memory back, and the KV cache's where none of its content is needed any more; nothing
  // is run until load_weights(). Again when that is done already: ok, likewise. unimplemented: it cannot.
  enum class KvContent { keep, drop };
  virtual Status release_memory(KvContent) { return unimplemented("This model runner keeps its memory."); }
  // Not ok: they could not be loaded, or have changed; may be retried.
  virtual Status load_weights() { return ok_status(); }

  // Whether run() has news of tiers (StepResult::tier_news), so that an empty batch is run to collect it.
  // The function is called on any thread when there is news again; null: none.
  virtual bool has_tier_news() const { return false; }
  virtual void on_tier_news(std::function<void()>) {}
  // Forgets rows in tiers. Transfers in flight are cancelled and not reported; rows that stay are found
  // again.
  enum class TierRows : std::uint8_t { all, in_this_process };
  virtual void erase_tiers(TierRows) {}
  // Erases these; `done` is called once, on any thread.
  virtual void erase_from_tiers(TierErase, std::function<void(Status)> done) { done(ok_status()); }

  // A runner on several ranks wants to be asked between steps whether all are still there, even when the
  // engine has nothing to do. heartbeat() not ok: nothing can run any more. 0: no need.
  virtual std::chrono::milliseconds heartbeat_interval() const { return std::chrono::milliseconds(0); }
  virtual Status heartbeat() { return ok_status(); }

 private:
  StepResult done_;  // by a runner that has only run()
};

}  // namespace pagoda
