#pragma once
// SimulatedModelRunner: a model runner that computes nothing. It advances the clock by the cost model's time
// and returns candidates that are a function of (seed, sequence, position). Sampled tokens are uniform over
// the vocabulary. The candidates of a beam have the log-probabilities of a geometric distribution whose first
// probability is itself uniform in [0.05, 1): certain in some steps, open in others, 1.5 nats on average.
// Several batches may be in flight; each starts when the previous one ends. Tokens have no meaning.
// Threads: none; owned by the simulation.
#include <deque>

#include "model_runner/model_runner.h"
#include "sim/cost_model.h"
#include "sim/simulated_page_mapper.h"
#include "sim/simulated_tiers.h"
#include "sim/step_scatter.h"
#include "sim/virtual_clock.h"

namespace pagoda {

class SimulatedModelRunner final : public ModelRunner {
 public:
  // Borrows `clock`. `paged`: see step_cost(). `map_tensors`: number of tensors mapped for each block.
  SimulatedModelRunner(const CostModel& model, std::vector<KvGroup> groups, VirtualClock& clock,
                       std::uint64_t seed = 0, bool paged = true, std::int32_t map_tensors = 1,
                       const SimulatedTierOptions& tiers = {})
      : model_(model),
        groups_(std::move(groups)),
        paged_(paged),
        clock_(clock),
        scatter_(model_, seed),
        mapper_(model_, groups_, map_tensors),
        tiers_(tiers) {}

  StepResult run(const ScheduledBatch& batch) override {
    submit(batch);
    return wait();
  }
  std::int32_t max_in_flight() const override { return 2; }
  void submit(const ScheduledBatch& batch) override;
  StepResult wait() override;
  // wait() advances the clock until the news is due.
  bool has_tier_news() const override { return tiers_.pending(); }
  void erase_tiers(TierRows) override { tiers_.erase_all(); }
  void erase_from_tiers(TierErase what, std::function<void(Status)> done) override {
    tiers_.erase(what);
    done(ok_status());
  }

  double busy_seconds() const { return busy_seconds_; }
  // Lengthens the next step by `duration`.
  void stall(TimeNs duration) { stall_ += duration; }
  void fail_next() { fail_next_ = true; }

 private:
  struct Running {
    StepResult result;
    TimeNs finished = 0;
    bool empty = false;  // a batch without sequences, which waits for news of the tiers
  };
  const CostModel model_;
  const std::vector<KvGroup> groups_;
  const bool paged_;
  VirtualClock& clock_;
  StepScatter scatter_;
  SimulatedPageMapper mapper_;
  SimulatedTiers tiers_;
  std::deque<Running> running_;
  TimeNs busy_until_ = 0;
  double busy_seconds_ = 0;
  TimeNs stall_ = 0;
  bool fail_next_ = false;
};

}  // namespace pagoda
