#pragma once
// Scheduler: decides, once per step, which sequences run and how many tokens each computes. A sequence has
// num_computed_tokens (K/V in the cache) and num_tokens (known); a step lets the first catch up with the
// second.
//     validate -> add -> [ schedule -> (the batch is run) -> computed -> update ]* -> group finished
// Runs nothing, reads no clock. Borrows groups until they finish, and the KV manager for the scheduler's
// lifetime. Invariants: a non-empty scheduler schedules a non-empty batch, and the oldest group is never
// preempted for a younger one (engine.progress); sequences of a group are admitted and preempted together
// (engine.gang). Source: Orca (OSDI'22); PagedAttention (SOSP'23) §4.5. Threads: none, the engine's;
// validate(): any.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/changes.h"
#include "request/sequence.h"
#include "request/standing_code.h"
#include "scheduler/admission_order.h"
#include "scheduler/preemption_policy.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

struct SchedulerConfig {
  std::int32_t max_num_seqs = 256;             // sequences in one step
  std::int32_t max_num_batched_tokens = 2048;  // tokens in one step: the token budget
  std::int32_t max_model_len = 0;              // tokens of one sequence, prompt + output
  bool enable_chunked_prefill = true;          // off: a prompt is computed whole, in one step
  SchedulingPolicy policy = SchedulingPolicy::fcfs;
  PreemptionMode preemption_mode = PreemptionMode::automatic;
  std::int32_t max_adapters = 0;  // maximum number of distinct adapters among the running groups; 0: no limit
};

// A group's state and the reason for it.
struct Standing {
  std::int64_t position = 0;                  // in its queue
  std::int64_t blocks_needed = 0;             // for admission, approximately
  std::string reason;                         // one sentence
  StandingCode code = StandingCode::running;  // the reason as a code
};

// The group and sequence behind one entry of the batch, for decoding/ and update().
struct ScheduledRef {
  SequenceGroup* group = nullptr;
  Sequence* sequence = nullptr;
};

struct SchedulerCounts {
  std::int64_t waiting_groups = 0;  // not admitted, or preempted, or arriving
  std::int64_t running_groups = 0;
  std::int64_t running_sequences = 0;
  std::int64_t swapped_groups = 0;
  // Since the start.
  std::int64_t preemptions = 0;
  std::int64_t preemptions_by_swap = 0;  // the part of these that used the swap space
  std::int64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  std::int64_t padded_tokens = 0;  // computed needlessly if batches were padded to their longest member
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // invalid_argument, naming the limit, if the request could not run even on an idle engine. Safe from any
  // thread: depends only on constant data.
  virtual Status validate(const Request& request) const = 0;

  // Adds a validated group, with one parked sequence that holds the prompt, to the waiting queue.
  virtual void add(SequenceGroup& group) = 0;

  // Never fails. A batch without sequences means that nothing is waiting or running, or that everything waits
  // for tiers; the batch may still contain tier moves. Valid until update(). The engine adds the masks of
  // SampleSpec and changes nothing else.
  virtual ScheduledBatch& schedule() = 0;
  // True if schedule() may be called again before computed(). It then plans as if the batch in flight had
  // run, with kTokenInFlight for the unknown tokens; computed() and update() refer to the earlier batch. A
  // sequence that ends while a batch in flight names it keeps its K/V until that batch's update(). False if
  // this scheduler does not plan ahead, or the next step must preempt, which requires the batch's result.
  virtual bool plans_ahead() const { return false; }
  virtual void drop_plan() {}  // discards the latest plan, which was made ahead and has no work
  // Both refer to the latest schedule() and are valid until that batch's update().
  virtual std::span<const ScheduledRef> scheduled() const = 0;  // in batch order
  virtual std::span<SequenceGroup* const> preempted() const = 0;

  // Called when the batch has run: its tokens are computed.
  virtual void computed() = 0;
  // Applies the changes that decoding/ decided, in order (children are moved out of `changes`), and ends the
  // step. A group whose sequences have all finished becomes finished and is no longer referenced.
  virtual void update(std::span<Change> changes) = 0;

  // Release everything held by the group or the sequence, and mark it finished.
  virtual void abort(SequenceGroup& group) = 0;
  virtual void abort_sequence(SequenceGroup& group, Sequence& sequence) = 0;

  // Sets the token budget of the next steps, below max_num_batched_tokens; for models whose prompts can be
  // split. Must be at least the number of running sequences.
  virtual void set_token_budget(std::int32_t) {}

  // Sets the costs that a preemption policy may use.
  virtual void set_preemption_costs(const PreemptionCosts&) {}

  // True if answers are held back until nothing runs (FasterTransformer's batches end together).
  virtual bool answers_together() const { return false; }

  // Under an order with turns, the tenants with waiting or running groups.
  virtual std::vector<TenantStanding> tenants() const { return {}; }

  virtual Standing standing(const SequenceGroup& group) const = 0;  // the group must not be finished
  virtual SchedulerCounts counts() const = 0;
  virtual void check_invariants() const = 0;
};

}  // namespace pagoda
