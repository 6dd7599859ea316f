#pragma once
// StepObserver: watches an engine: the recorder of `serve --record`, the journal, the live feed, metrics, the
// simulator's statistics. It sees every input of a decision, in order. An observer changes nothing, and its
// arguments are valid only during the call. Objects that take part in decisions (costs, the token budget, the
// poison record) belong to the step and are not observers.
//     on_scheduled -> [the batch runs] -> on_step -> on_usage -> on_outcome -> on_state
// A step may be scheduled before on_step of the previous one. Data that the batch points to (tokens, tables)
// may be read only in on_scheduled; sizes and ids also in on_step. Threads: the engine thread.
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
  std::span<const ScheduledRef> refs = {};    // the batch's sequences, in order
  std::span<SequenceGroup* const> preempted;  // by this step's schedule()
  const StepResult& result;                   // may be a failure; then it is the last one
  TimeNs started = 0, finished = 0;           // times of the step's run()
  std::int64_t number = 0;                    // from 1
  std::int64_t num_masks = 0;                 // masks requested from constraints
  bool next_planned = false;                  // the next step was planned before this one was waited for
};

// Decoding's changes for a successful step, before the scheduler applies them.
struct StepOutcome {
  const StepReport& report;
  std::span<const Change> changes;
  const KvUsage& usage;               // including everything allocated for the step
  std::int64_t running_requests = 0;  // without the preempted ones
};

// The engine's state after a step, or after a change between two steps.
struct EngineHoldings {
  const SchedulerCounts& counts;
  const KvManager& kv;
  std::int32_t num_batched_tokens = 0;  // tokens of the step; 0 between two steps
};

// New tokens of a request.
struct TokenProgress {
  const Request& request;
  const RequestTimes& times;    // including these tokens
  std::int64_t num_tokens = 0;  // over all of its sequences
  std::int32_t num_cached_tokens = 0;
  std::optional<TimeNs> since_last;  // absent: first tokens of the request
};

struct EndedRequest {
  const Request& request;
  const RequestTimes& times;
  FinishReason reason = FinishReason::abort;
  TimeNs ended = 0;
  std::int64_t longest_output = 0, num_output_tokens = 0;  // longest sequence; all sequences together
  std::int32_t num_cached_tokens = 0, num_preemptions = 0;
  bool is_prefix = false;  // a shared prefix, not a client's request
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // Inputs of decisions.
  virtual void on_submit(const Request&) {}  // accepted
  virtual void on_abort(RequestId) {}        // a request being served
  virtual void on_abort_sequence(RequestId, std::int32_t /*index*/) {}
  virtual void on_add_prefix(const std::string& /*name*/, std::span<const TokenId>) {}  // accepted
  virtual void on_drop_prefix(const std::string& /*name*/) {}
  virtual void on_reset_prefix_cache() {}
  virtual void on_erase_cached(const CacheOwner&) {}
  // The drafts of a sequence, if a constraint has cut or added some, or the proposer could not reproduce
  // them. Precedes the step that may use them.
  virtual void on_drafts_chosen(SequenceId, std::span<const TokenId> /*drafts*/) {}

  // A step.
  virtual void on_scheduled(std::int64_t /*number*/, const ScheduledBatch&,
                            std::span<SequenceGroup* const> /*preempted*/) {}
  // Called before the step's tokens are applied, after constraints have marked dead ends and ending tokens.
  virtual void on_step(const StepReport&) {}
  virtual void on_usage(const KvUsage&) {}  // after each step, and whenever the engine becomes idle
  virtual void on_outcome(const StepOutcome&) {}
  virtual void on_state(const EngineHoldings&) {}
  virtual void on_turn_end() {}  // the step and all that preceded it is complete

  // Requests.
  virtual void on_drafts_verified(std::int32_t /*num_tried*/, std::int32_t /*num_accepted*/) {}
  virtual void on_tokens(const TokenProgress&) {}
  virtual void on_ended(const EndedRequest&) {}
  virtual void on_sleep(std::int32_t /*level*/) {}  // -1: awake

  // The observer that receives the KV manager's prefix cache events while this observer is registered; null:
  // none.
  virtual CacheObserver* cache_observer() { return nullptr; }
};

}  // namespace pagoda
