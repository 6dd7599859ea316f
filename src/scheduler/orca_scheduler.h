#pragma once
// OrcaScheduler: the paper's main baseline. Iteration-level scheduling, but with memory reserved in advance:
// a request is admitted when regions for its complete answers can be reserved, strictly in order of arrival,
// and then runs to its end; it is never preempted. A beam search has its regions from the start, and a beam
// that continues another one copies its whole region. A prompt of n sequences, which Orca computes n times,
// is computed once and counted n - 1 times as padding. Invariants: waiting_ and running_ are in order of
// arrival; every running sequence has its region. Source: Orca (OSDI'22); its memory as in PagedAttention
// (SOSP'23) §6.1. Threads: none; owned by the engine thread. validate() is safe from any thread.
#include <deque>

#include "kv_cache/reserved_kv_manager.h"
#include "scheduler/scheduler.h"

namespace pagoda {

class OrcaScheduler : public Scheduler {
 public:
  OrcaScheduler(const SchedulerConfig& config, ReservedKvManager& kv);

  Status validate(const Request& request) const override;
  void add(SequenceGroup& group) override;
  ScheduledBatch& schedule() override;
  std::span<const ScheduledRef> scheduled() const override { return refs_; }
  std::span<SequenceGroup* const> preempted() const override { return {}; }
  void computed() override;
  void update(std::span<Change> changes) override;
  void abort(SequenceGroup& group) override;
  void abort_sequence(SequenceGroup& group, Sequence& sequence) override;
  Standing standing(const SequenceGroup& group) const override;
  SchedulerCounts counts() const override;
  void check_invariants() const override;

 protected:
  // Overridden by FasterTransformerScheduler.
  virtual bool serves_beams() const { return true; }
  virtual bool may_admit() const { return true; }
  virtual bool may_join(const SequenceGroup&) const { return true; }  // may run alongside the running groups
  virtual void release(Sequence& sequence);                           // called when the sequence has ended
  virtual void on_scheduled() {}
  virtual void on_settled() {}  // called when a group may have ended

  std::int32_t num_tokens_of(const Request& request) const;  // maximum of prompt and answer together

  const SchedulerConfig config_;
  ReservedKvManager& kv_;
  std::vector<SequenceGroup*> running_;
  ScheduledBatch batch_;
  std::int64_t num_padded_ = 0;

 private:
  void admit();
  void schedule_group(SequenceGroup& group);
  void end(Sequence& sequence, FinishReason reason);
  void settle(SequenceGroup& group);

  std::uint64_t next_order_ = 0;
  std::deque<SequenceGroup*> waiting_;
  std::vector<ScheduledRef> refs_;
  std::int32_t tokens_left_ = 0, prefill_left_ = 0;
  bool in_flight_ = false;
};

}  // namespace pagoda
