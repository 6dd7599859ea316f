#pragma once
// FasterTransformerScheduler: the paper's second baseline, request-level batches. Takes the earliest
// requests that fit, runs them until the last one has ended, and only then frees their memory, gives the
// answers out, and takes the next. A batch's longest prompt and longest answer together must fit the model's
// window, since every member is padded to both (the artifact of the paper, ft_server.py). Padding to the
// longest member is counted, and told with the batch, not computed: our runner has no need of it. Source:
// PagedAttention (SOSP'23) §6.1, FasterTransformer with a dynamic-batching scheduler. Threads: none; owned by
// the engine thread. validate() alone is safe from any thread.
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

  std::vector<SequenceId> retired_;  // ended, of the running batch
};

}  // namespace pagoda
