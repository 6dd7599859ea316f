#pragma once
// StepObserver: who wants to see what happens to an engine and what it decides: the recorder of
// `serve --record`, and the simulator's statistics. Everything that decisions depend on passes by here, in
// order. An observer changes nothing, and its views end with the call.
// Threads: called on the engine thread.
#include <span>
#include <string>

#include "base/clock.h"
#include "request/kv_usage.h"
#include "request/request.h"
#include "request/sequence.h"
#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

struct StepReport {
  const ScheduledBatch& batch;                // not empty
  std::span<SequenceGroup* const> preempted;  // by its schedule()
  const StepResult& result;                   // may be a failure, the last one
  TimeNs started = 0, finished = 0;           // of its run()
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_submit(const Request&) {}  // accepted
  virtual void on_abort(RequestId) {}        // of one that is being served
  virtual void on_abort_sequence(RequestId, std::int32_t /*index*/) {}
  virtual void on_add_prefix(const std::string& /*name*/, std::span<const TokenId>) {}  // accepted
  virtual void on_drop_prefix(const std::string& /*name*/) {}
  virtual void on_reset_prefix_cache() {}
  // A constraint has cut or added drafts: these are left for a sequence; told before the step that may take
  // them.
  virtual void on_drafts_cut(SequenceId, std::span<const TokenId> /*left*/) {}
  // Before its tokens are applied, and with what constraints said of them: dead ends, and which tokens end.
  virtual void on_step(const StepReport&) {}
  virtual void on_usage(const KvUsage&) {}  // now and then
};

}  // namespace pagoda
