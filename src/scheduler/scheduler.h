#pragma once
// Scheduler: decides, once per step, which sequences run and how many tokens each computes. A sequence has
// num_computed_tokens (K/V in the cache) and num_tokens (known); a step lets the first catch up with the
// second.
//     validate -> add -> [ schedule -> (the batch is run) -> computed -> update ]* -> group finished
// Runs nothing, reads no clock. Groups are borrowed until they finish, the KV manager for the scheduler's
// life. Invariants: a non-empty scheduler schedules a non-empty batch, and the oldest group is never
// preempted for a younger one (engine.progress); sequences of a group are admitted and preempted together
// (engine.gang). Source: Orca (OSDI'22); PagedAttention (SOSP'23) §4.5. Threads: none, the engine's;
// validate() alone: any.
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
  bool enable_chunked_prefill = true;          // off: a prompt runs whole in one step
  SchedulingPolicy policy = SchedulingPolicy::fcfs;
  PreemptionMode preemption_mode = PreemptionMode::automatic;
  std::int32_t max_adapters = 0;  // low-rank adapters of the groups that run together; 0: any number
};

// A group's state, and the reason for it.
struct Standing {
  std::int64_t position = 0;                  // in its queue
  std::int64_t blocks_needed = 0;             // for admission, approximately
  std::string reason;                         // one sentence
  StandingCode code = StandingCode::running;  // the same
};

// One entry of the batch, with the objects behind its ids: for decoding/ and update().
struct ScheduledRef {
  SequenceGroup* group = nullptr;
  Sequence* sequence = nullptr;
};

struct SchedulerCounts {
  std::int64_t waiting_groups = 0;  // not admitted, or preempted; those that are arriving, too
  std::int64_t running_groups = 0;
  std::int64_t running_sequences = 0;
  std::int64_t swapped_groups = 0;
  // Since the start.
  std::int64_t preemptions = 0;
  std::int64_t preemptions_by_swap = 0;  // part of these
  std::int64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  std::int64_t padded_tokens =
      0;  // tokens that batches padded to their longest member would have computed for nothing
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // invalid_argument, naming the limit: the request could not run even with everything to itself.
  // Safe from any thread: depends on nothing that changes.
  virtual Status validate(const Request& request) const = 0;

  // Takes a validated group, with one parked sequence that holds the prompt, into the waiting queue.
  virtual void add(SequenceGroup& group) = 0;

  // Never fails. A batch without sequences means that nothing is waiting or running, or that all of it waits
  // for tiers; it may still have moves for these. Valid until update().
  // The engine adds the masks of SampleSpec, and nothing else.
  virtual ScheduledBatch& schedule() = 0;
  // Whether schedule() may be called again before computed(). It then plans as if the batch in flight had
  // run, with kTokenInFlight for its unknown tokens; computed() and update() refer to the earlier batch. A
  // sequence that ends while a batch in flight names it keeps its K/V until that batch's update(). False:
  // this scheduler does not plan ahead, or the next step must preempt, which needs the batch's result.
  virtual bool plans_ahead() const { return false; }
  virtual void drop_plan() {}  // discards the latest plan, made ahead and without work
  // Both of the latest schedule(), valid until that batch's update().
  virtual std::span<const ScheduledRef> scheduled() const = 0;  // in batch order
  virtual std::span<SequenceGroup* const> preempted() const = 0;

  // The batch has run: its tokens are computed.
  virtual void computed() = 0;
  // Carries out what decoding/ decided, in order (children are moved out of `changes`), and ends the step.
  // A group whose sequences have all finished is finished and no longer referred to.
  virtual void update(std::span<Change> changes) = 0;

  // Frees what the group or the sequence holds and marks it finished.
  virtual void abort(SequenceGroup& group) = 0;
  virtual void abort_sequence(SequenceGroup& group, Sequence& sequence) = 0;

  // The token budget of the next steps, below max_num_batched_tokens; for models whose prompts can be split.
  // At least as many as sequences are running.
  virtual void set_token_budget(std::int32_t) {}

  // The costs by which a preemption policy may choose.
  virtual void set_preemption_costs(const PreemptionCosts&) {}

  // Answers are kept back until nothing runs (FasterTransformer's batches end together).
  virtual bool answers_together() const { return false; }

  // Under an order with turns, the tenants that have anything here.
  virtual std::vector<TenantStanding> tenants() const { return {}; }

  virtual Standing standing(const SequenceGroup& group) const = 0;  // the group must not be finished
  virtual SchedulerCounts counts() const = 0;
  virtual void check_invariants() const = 0;
};

}  // namespace pagoda
