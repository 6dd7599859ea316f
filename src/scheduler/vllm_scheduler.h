#pragma once
// VllmScheduler: PagedAttention's scheduler (SOSP'23 §4.5) with chunked prefill (Sarathi-Serve, OSDI'24).
//   * Budget: running sequences get their missing tokens under one token budget, decodes first; blocks come
//     by chunk.
//   * Admission: waiting groups in order (admission_order.h); one whose prompt begins like one being computed
//     waits to share its blocks. With turns, a tenant with nothing running is admitted at once.
//   * Preemption: the latest group swaps out, or is recomputed, leader first; nobody is admitted while one is
//     swapped out. If the oldest alone does not fit, it parks its last sequences.
//   * Speculation: drafts ride along where tokens and blocks allow.
//   * Invariants: running_, waiting_, swapped_ are sorted by (rank, order); no step swaps both out and in.
#include <algorithm>
#include <set>

#include "kv_cache/kv_manager.h"
#include "scheduler/scheduler.h"

namespace pagoda {

class VllmScheduler final : public Scheduler {
 public:
  // In the order of config.policy, unless another one is given.
  VllmScheduler(const SchedulerConfig& config, KvManager& kv,
                std::unique_ptr<AdmissionOrder> order = nullptr);

  Status validate(const Request& request) const override;
  void add(SequenceGroup& group) override;
  ScheduledBatch& schedule() override;
  std::span<const ScheduledRef> scheduled() const override { return refs_; }
  std::span<SequenceGroup* const> preempted() const override { return preempted_; }
  void computed() override;
  void update(std::span<Change> changes) override;
  void abort(SequenceGroup& group) override;
  void abort_sequence(SequenceGroup& group, Sequence& sequence) override;
  void set_preemption_costs(const PreemptionCosts& costs) override { costs_ = costs; }
  void set_token_budget(std::int32_t tokens) override { token_budget_ = tokens; }
  std::vector<TenantStanding> tenants() const override { return order_->tenants(); }
  Standing standing(const SequenceGroup& group) const override;  // in vllm_standing.cc
  SchedulerCounts counts() const override;
  void check_invariants() const override;

 private:
  struct Before {
    bool operator()(const SequenceGroup* a, const SequenceGroup* b) const {
      return a->rank != b->rank ? a->rank < b->rank : a->order < b->order;
    }
  };
  enum class Siblings { wait, resume };
  enum class Room { ok, group_preempted, sequence_parked };

  std::int32_t prefill_left(std::size_t position) const;
  std::int32_t decodes_from(std::size_t position) const;
  std::int32_t prompts_from(std::size_t position) const;
  void schedule_group(std::size_t position, Siblings siblings);
  // Puts `count` tokens of the sequence into the batch, and so many of its drafts.
  void take(SequenceGroup& group, Sequence& sequence, std::int32_t count, std::int32_t num_draft_tokens);
  std::int32_t make_room_for_drafts(std::size_t position, const Sequence& sequence, std::int32_t count);
  void keep_accepted(std::span<const Change> changes);
  // For `count` more tokens, or as many of them as there is room for.
  Room make_space(std::size_t position, Sequence& sequence, std::int32_t& count);
  bool try_grow(const SequenceGroup& group, Sequence& sequence, std::int32_t& count);
  // Sets aside what a sequence needs to compute all that it knows.
  bool promise_rest(const SequenceGroup& group, const Sequence& sequence, std::int32_t chunk);
  void resume_siblings(std::size_t position);
  bool resume_sibling(std::size_t position, Sequence& sequence);
  void admit();
  void admit_in_order();
  SequenceGroup& next_waiting() const;  // some must wait
  // Under an order with turns: before anyone is scheduled, who of those that nothing runs of; in
  // vllm_turns.cc.
  void let_newcomers_in();
  bool make_place(SequenceGroup& newcomer, std::int32_t num_seqs);
  void begin_running(SequenceGroup& group);
  void wait_again(SequenceGroup& group);
  std::size_t num_in_turn() const { return std::min(num_in_turn_, running_.size()); }
  // Swaps groups in while they fit; false when nobody else may follow. In vllm_swap.cc.
  bool resume_swapped(std::int32_t& num_seqs);
  void give_up_swapped(SequenceGroup& group);  // it waits, to be recomputed
  bool try_swap_out(SequenceGroup& group, std::span<const SequenceId> resident);
  void run_now(SequenceGroup& group);  // admitted or swapped in: into running_ and into the batch
  bool try_admit(SequenceGroup& group);
  // Whether a sequence of this step is about to compute a beginning that `leader` would compute once more.
  bool prefix_under_way(const SequenceGroup& group, const Sequence& leader, std::int32_t cached);
  void preempt(SequenceGroup& group, bool may_swap = true);
  void settle(SequenceGroup& group);  // after sequences of it have finished
  bool lockstep_ready(const SequenceGroup& group) const;
  // Whether its prompt is computed in one step or not at all.
  bool runs_whole(const SequenceGroup& group) const {
    return !config_.enable_chunked_prefill || group.request.work.whole_prompt;
  }
  bool has_parked(const SequenceGroup& group) const;

  const SchedulerConfig config_;
  KvManager& kv_;
  const KvGeometry& geometry_;
  KvSharing& sharing_;
  KvSwap& swap_;
  const std::unique_ptr<AdmissionOrder> order_;
  const bool takes_turns_, has_states_;  // the order does; layers have
  const std::int64_t watermark_blocks_;  // kept free at admission, so that running groups can grow
  std::uint64_t next_order_ = 0;
  std::set<SequenceGroup*, Before> waiting_, swapped_;
  std::vector<SequenceGroup*> running_;

  ScheduledBatch batch_;
  std::vector<ScheduledRef> refs_;
  std::vector<SequenceGroup*> preempted_;
  std::int32_t token_budget_;     // tokens of a step
  std::int32_t tokens_left_ = 0;  // left of the budget
  bool in_flight_ = false;
  // The number of running_ that takes part in this step: all, or only as far as a newcomer whose prompt is
  // short.
  std::size_t num_in_turn_ = 0;
  bool was_short_ = false;      // the last step was such a one
  bool nobody_let_in_ = false;  // in the last step, of those who waited, though tokens were left
  PreemptionCosts costs_;
  std::int64_t num_preemptions_ = 0, num_swap_preemptions_ = 0;
  std::int64_t num_swapped_out_ = 0, num_swapped_in_ = 0;  // blocks
};

}  // namespace pagoda
