#pragma once
// EngineCore: the engine's loop body, without a thread, a clock of its own, or any waiting, so that tests
// and the simulator drive the same code as the server:
//
//     propose drafts -> schedule -> fill masks -> run -> computed -> decoding.advance -> scheduler.update ->
//     publish
//
// It owns the requests and what serves them. It is not the queue in front of it (engine_thread.h).
// Invariants: engine.conservation: every submitted request gets exactly one finished output.
// engine.release: when no request is left, every KV block is free (or cached).
// Threads: none; whoever owns it calls everything but what is marked, and validate().
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "decoding/constraint_set.h"
#include "decoding/draft_proposer.h"
#include "decoding/strategy.h"
#include "engine/client.h"
#include "engine/cost_meter.h"
#include "engine/engine_config.h"
#include "engine/engine_metrics.h"
#include "engine/journal.h"
#include "engine/live_feed.h"
#include "engine/poison_record.h"
#include "engine/queue_forecast.h"
#include "engine/step_budget.h"
#include "engine/step_observer.h"
#include "kv_cache/cache_observer.h"
#include "model_runner/model_runner.h"
#include "scheduler/scheduler.h"

namespace pagoda {

struct EngineParts {
  std::unique_ptr<KvManager> kv;
  std::unique_ptr<Scheduler> scheduler;  // borrows kv
  std::unique_ptr<ModelRunner> runner;
};

class EngineCore {
 public:
  // `config` has passed validate(). Borrows clock and registry.
  EngineCore(const EngineConfig& config, EngineParts parts, const Clock& clock, MetricsRegistry& registry);
  ~EngineCore();

  const EngineLimits& limits() const { return limits_; }
  // invalid_argument: the request can never be served here, naming the limit.
  Status validate(const Request& request) const;

  // Takes the request into the waiting queue, which has no bound here. On success `sink` gets every output.
  Status submit(Request request, std::shared_ptr<OutputSink> sink);
  // These free what is held at once (no step is in flight when they can be called).
  void abort(RequestId id);
  void abort_sequence(RequestId id, std::int32_t index);

  // Shared prefixes; see client.h. One still being computed is not listed yet, but can be dropped.
  Status add_prefix(const std::string& name, std::vector<TokenId> tokens, std::shared_ptr<OutputSink> sink);
  Status drop_prefix(const std::string& name);
  std::vector<PrefixInfo> prefixes() const;   // any thread
  bool hide_prefix(const std::string& name);  // any thread; from the list, before it is dropped

  // Sleeping; see client.h. In engine_sleep.cc. Whoever still wants an answer from a sleeping engine waits;
  // only what is late ends.
  Status sleep(std::int32_t level);
  Status wake_up(const WakeOrder& order);
  bool asleep() const { return sleep_level_ >= 0; }
  void reset_prefix_cache();

  // What a forecast goes by; see queue_forecast.h. In engine_load.cc.
  EngineLoad load() const;

  // Runs one step; false when there was nothing to run, or the runner has failed (see status()).
  bool step();
  // Not ok once the runner has failed: nothing more will run, and the owner calls fail_all().
  const Status& status() const { return status_; }
  // For an idle engine: asks the runner whether it could still run, every heartbeat_interval() (0: never).
  std::chrono::milliseconds heartbeat_interval() const { return parts_.runner->heartbeat_interval(); }
  void heartbeat();
  // For an idle engine: a few milliseconds of what later steps would wait for; false when nothing is left.
  bool prepare_ahead() { return status_.ok() && !asleep() && parts_.runner->prepare_ahead(); }
  // Ends every request with `error`.
  void fail_all(const Status& error);

  bool idle() const { return requests_.empty(); }
  std::int64_t num_requests() const { return static_cast<std::int64_t>(requests_.size()); }
  // Requests that have left the waiting queue for the first time, since the start, one way or another.
  std::int64_t num_started() const { return num_started_; }
  std::int64_t num_finished() const { return num_finished_; }
  std::int64_t num_steps() const { return num_steps_; }

  // Another one than EngineConfig::speculative asks for; null: none. Between steps.
  void set_proposer(std::unique_ptr<DraftProposer> proposer) { proposer_ = std::move(proposer); }
  std::unique_ptr<DraftProposer> take_proposer() { return std::move(proposer_); }  // to put another around it
  // Null: nobody watches. Borrowed.
  void set_observer(StepObserver* observer) { observer_ = observer; }
  // What happens to the pool's blocks is kept there; null: nowhere. Borrowed. Between steps.
  void set_journal(Journal* journal) { journal_ = journal; }
  // What the prefix cache holds is told there; null: nowhere. Borrowed. Before the first request. end_turn():
  // all that belongs to the step, and to what came before it, has been told.
  void set_cache_observer(CacheObserver* observer);
  void end_turn() {
    if (cache_observer_ != nullptr) cache_observer_->end_step();
  }
  // Who hears of each step for a live view, with its own journal; null: nobody. Borrowed. Between steps.
  void set_live(LiveFeed* live);
  // What is in a step while it runs is noted there, and what stands there is refused; null: neither.
  // Borrowed. Before the first request.
  void set_poison_record(PoisonRecord* record) { poison_ = record; }

  const KvManager& kv() const { return *parts_.kv; }
  KvManager& kv() { return *parts_.kv; }
  const Scheduler& scheduler() const { return *parts_.scheduler; }
  const EngineMetrics& metrics() const { return metrics_; }
  EngineMetrics& metrics() { return metrics_; }
  const Clock& clock() const { return clock_; }
  DebugSnapshot debug_snapshot() const;  // in debug_snapshot.cc
  LiveState live_state() const;          // in live_state.cc; takes what the feed has
  void check_invariants() const;

 private:
  struct RequestState {
    SequenceGroup group;
    std::unique_ptr<DecodingStrategy> strategy;
    std::unique_ptr<ConstraintSet> constraints;  // null: everything may be said
    std::shared_ptr<OutputSink> sink;
    RequestTimes times;
    TimeNs preempted_at = 0;   // 0: it is in the batch, or has never been
    TimeNs preempted_for = 0;  // since the last token
    bool told_prompt_logprobs = false;
    std::int64_t num_output_tokens = 0;  // over all sequences, dropped ones included
    RequestDigest digest{};              // for the poison record
    std::string prefix_name;             // not empty: no client's request, but a prefix to be pinned
    Status prefix_status = unavailable("The prefix was dropped before it was computed.");
  };
  struct Prefix {
    PrefixInfo info;
    SequenceId holder{};  // what stands for it in the KV manager
    bool hidden = false;
  };
  std::unique_ptr<RequestState> make_state(Request request, std::shared_ptr<OutputSink> sink);
  void start(std::unique_ptr<RequestState> state);
  Status pin(const SequenceGroup& group, const std::string& name);
  // Before schedule(): what it goes by beside the groups themselves.
  void plan_step();
  void propose_drafts(std::int32_t num_decodes);
  void note_drafts(RequestState& state, const ScheduledSequence& scheduled, Sequence& sequence,
                   std::size_t first_change);
  StepResult run_batch(const ScheduledBatch& batch);
  // In engine_constraints.cc.
  void force_drafts(std::int32_t num_decodes);  // of held_to_draft_
  void fill_masks(ScheduledBatch& batch, std::span<const ScheduledRef> refs);
  void judge_constrained(const ScheduledBatch& batch, StepResult& result);
  // In engine_ends.cc.
  void note_in_step(std::span<const ScheduledRef> refs);
  void settle_step(const Status& status);
  void abort(RequestState& state, Status error);
  void end_late();                             // what is past its deadline, or will be before it is done
  bool end_at_dead_end(SequenceGroup& group);  // of sampled_; into changes_
  RequestState& state_of(const SequenceGroup& group);
  void collect_prompt_logprobs(SequenceGroup& group, const Sequence& sequence, SequenceResult& result);
  void publish(RequestState& state, std::span<Change> changes, TimeNs now);
  void send(RequestState& state, RequestOutput output);
  void deliver(std::shared_ptr<OutputSink> sink, RequestOutput output);
  void flush_held();
  void note_started(RequestState& state, TimeNs now);
  // Who was preempted for this step, and who is back in it.
  void note_preempted(std::span<const ScheduledRef> refs, TimeNs now);
  void send_last(RequestState& state, RequestOutput output, TimeNs now);
  void update_gauges(std::int32_t num_batched_tokens);
  void count_step(const ScheduledBatch& batch);
  void tell_ended(const RequestState& state, FinishReason reason, TimeNs now);

  const EngineConfig config_;
  EngineParts parts_;
  const Clock& clock_;
  EngineMetrics metrics_;
  CostMeter costs_;
  StepBudget budget_;
  TrafficMeans means_;
  StepObserver* observer_ = nullptr;
  Journal* journal_ = nullptr;
  LiveFeed* live_ = nullptr;
  CacheObserver* cache_observer_ = nullptr;
  PoisonRecord* poison_ = nullptr;
  std::unique_ptr<DraftProposer> proposer_;  // null: no speculation
  EngineLimits limits_;
  Status status_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  mutable std::mutex prefixes_mutex_;  // for those who read from other threads
  std::vector<Prefix> prefixes_;
  std::uint64_t num_prefix_requests_ = 0;
  SequenceIds ids_;
  std::uint64_t num_drawn_seeds_ = 0;
  std::int64_t num_added_ = 0;  // to the scheduler
  std::int64_t num_started_ = 0, num_finished_ = 0, num_steps_ = 0;
  std::int32_t sleep_level_ = -1;                     // -1: awake
  WakeOrder sleeping_;                                // what is still to be woken
  std::int64_t num_constrained_ = 0;                  // requests
  std::int64_t num_set_aside_ = 0;                    // requests that were preempted and are not back
  std::set<std::pair<TimeNs, RequestId>> deadlines_;  // of those that have one
  EngineTotals totals_;

  // Kept between steps for their capacity.
  std::vector<Change> changes_;
  std::vector<SampledSequence> sampled_;
  struct Part {  // of changes_, of one group
    RequestState* state;
    std::size_t begin, end;
  };
  std::vector<Part> touched_;
  struct Constrained {  // a sequence of the batch that is drawn from under masks
    std::size_t position;
    ConstraintSet* set;
  };
  std::vector<Constrained> constrained_;
  struct HeldToDraft {  // a constrained sequence that decodes in the step to come
    ConstraintSet* set;
    Sequence* sequence;
    std::int32_t limit;  // of further drafts
    bool settled;        // the constraint has had a word in its drafts
  };
  std::vector<HeldToDraft> held_to_draft_;
  std::vector<RequestDigest> in_step_;

  // Under a scheduler that gives answers out together: what waits for the batch's end, in order.
  struct Held {
    std::shared_ptr<OutputSink> sink;
    RequestOutput output;
  };
  std::vector<Held> held_;
};

}  // namespace pagoda
