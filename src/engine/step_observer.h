#pragma once
// StepObserver: watches an engine: the recorder of `serve --record`, the journal, the live feed, metrics, the
// simulator's statistics. Every input of a decision passes by here, in order. An observer changes nothing,
// and what it is given ends with the call. Objects that take part in decisions (costs, the token budget, the
// poison record) are not observers: they belong to the step.
//     on_scheduled -> [the batch runs] -> on_step -> on_usage -> on_outcome -> on_state
// A step may be scheduled before on_step of the one before it. What the batch points to, tokens and tables,
// may be read in on_scheduled alone; sizes and ids in on_step, too. Threads: the engine thread.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kv_cache/kv_manager.h"
#include "request/changes.h"
#include "request/kv_usage.h"
#include "request/request.h"
#include "request/request_times.h"
#include "request/sequence.h"
#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"
#include "scheduler/scheduler.h"

namespace pagoda {

class CacheObserver;

struct StepReport {
  const ScheduledBatch& batch;                // not empty
  std::span<const ScheduledRef> refs = {};    // its sequences, in order
  std::span<SequenceGroup* const> preempted;  // by its schedule()
  const StepResult& result;                   // may be a failure, the last one
  TimeNs started = 0, finished = 0;           // times of its run()
  std::int64_t number = 0;                    // from 1
  std::int64_t num_masks = 0;                 // that constraints were asked for
  bool next_planned = false;                  // the next step was, before this one was waited for
};

// Decoding's changes for a step that succeeded, before the scheduler carries them out.
struct StepOutcome {
  const StepReport& report;
  std::span<const Change> changes;
  const KvUsage& usage;               // with all that was allocated for the step
  std::int64_t running_requests = 0;  // beside those preempted
};

// The state of the engine after a step, or after something between two steps changed it.
struct EngineHoldings {
  const SchedulerCounts& counts;
  const KvManager& kv;
  std::int32_t num_batched_tokens = 0;  // tokens of the step; 0 between two steps
};

// New tokens of a request.
struct TokenProgress {
  const Request& request;
  const RequestTimes& times;    // with these tokens
  std::int64_t num_tokens = 0;  // over all of its sequences
  std::int32_t num_cached_tokens = 0;
  std::optional<TimeNs> since_last;  // absent: these are its first
};

struct EndedRequest {
  const Request& request;
  const RequestTimes& times;
  FinishReason reason = FinishReason::abort;
  TimeNs ended = 0;
  std::int64_t longest_output = 0, num_output_tokens = 0;  // one sequence's; all of them together
  std::int32_t num_cached_tokens = 0, num_preemptions = 0;
  bool is_prefix = false;  // a shared prefix, no client's request
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // Inputs of decisions.
  virtual void on_submit(const Request&) {}  // accepted
  virtual void on_abort(RequestId) {}        // the request is being served
  virtual void on_abort_sequence(RequestId, std::int32_t /*index*/) {}
  virtual void on_add_prefix(const std::string& /*name*/, std::span<const TokenId>) {}  // accepted
  virtual void on_drop_prefix(const std::string& /*name*/) {}
  virtual void on_reset_prefix_cache() {}
  virtual void on_erase_cached(const CacheOwner&) {}
  // The drafts of a sequence, where a constraint has cut or added some, or its proposer could not guess them
  // again. Precedes the step that may take them.
  virtual void on_drafts_chosen(SequenceId, std::span<const TokenId> /*drafts*/) {}

  // A step.
  virtual void on_scheduled(std::int64_t /*number*/, const ScheduledBatch&,
                            std::span<SequenceGroup* const> /*preempted*/) {}
  // Before its tokens are applied, with the verdicts of constraints: dead ends, and which tokens end.
  virtual void on_step(const StepReport&) {}
  virtual void on_usage(const KvUsage&) {}  // after each step, and whenever the engine comes to rest
  virtual void on_outcome(const StepOutcome&) {}
  virtual void on_state(const EngineHoldings&) {}
  virtual void on_turn_end() {}  // the step, and all that preceded it, is complete

  // Requests.
  virtual void on_drafts_verified(std::int32_t /*num_tried*/, std::int32_t /*num_accepted*/) {}
  virtual void on_tokens(const TokenProgress&) {}
  virtual void on_ended(const EndedRequest&) {}
  virtual void on_sleep(std::int32_t /*level*/) {}  // -1: awake

  // The observer to which the KV manager reports the prefix cache while this one is in the list; null: none.
  virtual CacheObserver* cache_observer() { return nullptr; }
};

}  // namespace pagoda
