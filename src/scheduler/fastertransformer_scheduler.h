#pragma once
// FasterTransformerScheduler: the paper's second baseline, with request-level batches. Takes the earliest
// requests that fit, runs them until the last one has ended, and only then frees their memory, delivers the
// answers and takes the next batch. Every member is padded to the batch's longest prompt and longest answer,
// which together must fit the model's context (ft_server.py in the paper's artifact). Padding is counted and
// reported with the batch, but not computed: our runner does not need it. Source: PagedAttention (SOSP'23)
// §6.1, FasterTransformer with a dynamic-batching scheduler. Threads: none; owned by the engine thread.
// validate() is safe from any thread.
#include "scheduler/orca_scheduler.h"

namespace pagoda {

class FasterTransformerScheduler final : public OrcaScheduler {
 public:
  using OrcaScheduler::OrcaScheduler;
  bool answers_together() const override { return true; }
  void check_invariants() const override;

 private:
  bool serves_beams() const override { return false; }  // an ended sequence keeps its region
  bool may_admit() const override { return running_.empty(); }
  bool may_join(const SequenceGroup& group) const override;
  void release(Sequence& sequence) override;
  void on_scheduled() override;
  void on_settled() override;

  std::vector<SequenceId> retired_;  // sequences of the running batch that have ended
};

}  // namespace pagoda
