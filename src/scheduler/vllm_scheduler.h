#pragma once
// VllmScheduler: PagedAttention's scheduler (SOSP'23 §4.5) with chunked prefill (Sarathi-Serve, OSDI'24),
// assembled from the parts in vllm/. This class determines the order in which the parts act in a step; the
// parts make the decisions.
//
//     Arrivals -> Newcomers (under turns) -> BatchFiller for each running group, oldest first -> Admission
//
// Invariants: a preempted group does not return in the same step, and no group ahead of it is admitted then;
// no step swaps both out and in.
#include <memory>

#include "kv_cache/kv_manager.h"
#include "scheduler/scheduler.h"
#include "scheduler/vllm/admission.h"
#include "scheduler/vllm/arrivals.h"
#include "scheduler/vllm/batch_filler.h"
#include "scheduler/vllm/draft_room.h"
#include "scheduler/vllm/growth.h"
#include "scheduler/vllm/newcomers.h"
#include "scheduler/vllm/preemption.h"
#include "scheduler/vllm/scheduler_records.h"
#include "scheduler/vllm/swapping.h"

namespace pagoda {

class VllmScheduler final : public Scheduler {
 public:
  // The order and the preemption policy default to those named in `config`.
  VllmScheduler(const SchedulerConfig& config, KvManager& kv, std::unique_ptr<AdmissionOrder> order = nullptr,
                std::unique_ptr<PreemptionPolicy> preemption = nullptr);

  Status validate(const Request& request) const override;
  void add(SequenceGroup& group) override;
  ScheduledBatch& schedule() override;
  bool plans_ahead() const override { return !records_.has_states && !records_.plan().pauses(); }
  std::span<const ScheduledRef> scheduled() const override { return records_.plan().references(); }
  std::span<SequenceGroup* const> preempted() const override { return records_.plan().preempted(); }
  void drop_plan() override { records_.plans.drop(records_.kv); }
  void computed() override;
  void update(std::span<Change> changes) override;
  void abort(SequenceGroup& group) override;
  void abort_sequence(SequenceGroup& group, Sequence& sequence) override;
  void set_preemption_costs(const PreemptionCosts& costs) override;
  void set_token_budget(std::int32_t tokens) override { records_.budget.set_limit(tokens); }
  std::vector<TenantStanding> tenants() const override { return order_->tenants(); }
  Standing standing(const SequenceGroup& group) const override;
  SchedulerCounts counts() const override;
  void check_invariants() const override;

 private:
  void settle(SequenceGroup& group);  // called after sequences of the group have finished
  // Makes the sequences in flight look as if their step had run, and undoes that.
  void expect(const StepPlan& in_flight) const;
  static void expect_no_more(const StepPlan& in_flight);

  const std::unique_ptr<AdmissionOrder> order_;
  const std::unique_ptr<PreemptionPolicy> preemption_policy_;
  std::uint64_t next_order_ = 0;
  SchedulerRecords records_;
  Swapping swapping_;
  Preemption preemption_;
  Growth growth_;
  DraftRoom drafts_;
  BatchFiller filler_;
  Arrivals arrivals_;
  Admission admission_;
  Newcomers newcomers_;
};

}  // namespace pagoda
