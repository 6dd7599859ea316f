#pragma once
// DraftPlanner: chooses the draft tokens that the next step may verify: the proposer's drafts, cut by
// constraints, and the tokens that a constraint forces. Drafts that a replay could not reproduce are reported
// to observers. It fills Sequence::draft before schedule(); the scheduler takes as many as fit. Threads:
// none; the engine thread's.
#include <memory>
#include <vector>

#include "decoding/draft_proposer.h"
#include "engine/engine_config.h"
#include "engine/request_table.h"
#include "engine/step_observers.h"
#include "model_runner/model_runner.h"

namespace pagoda {

class DraftPlanner {
 public:
  // Borrows `config` and `observers`.
  DraftPlanner(const EngineConfig& config, const StepObservers& observers);

  bool active() const { return proposer_ != nullptr || config_.forced_drafts; }
  DraftProposer* proposer() { return proposer_.get(); }  // null: none
  // Replaces the proposer chosen by EngineConfig::speculative; null: none. Between steps.
  void set_proposer(std::unique_ptr<DraftProposer> proposer) { proposer_ = std::move(proposer); }
  std::unique_ptr<DraftProposer> take_proposer() { return std::move(proposer_); }  // to wrap it

  // `num_decodes`: sequences that decode in the step. `recomputes`: accepted drafts are computed again, as
  // with states. `step`: rotates the order of constrained sequences, since not all of them may get forced
  // drafts.
  void plan(RequestTable& requests, ModelRunner& runner, std::int32_t num_decodes, bool recomputes,
            std::int64_t step);
  // Records that `num_tried` drafts of the sequence were computed and `num_accepted` were correct.
  void verified(RequestState& state, Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted);

 private:
  struct Constrained {  // a constrained sequence that decodes in the next step
    ConstraintSet* constraints;
    Sequence* sequence;
    std::int32_t limit;  // maximum number of further drafts
    bool reported;       // its drafts are reported to observers
  };
  void collect(RequestTable& requests, bool recomputes);
  void report_drafts(const Sequence& sequence);
  void force(ModelRunner& runner, std::int32_t num_decodes, std::int64_t step);

  const EngineConfig& config_;
  const StepObservers& observers_;
  std::unique_ptr<DraftProposer> proposer_;  // null: no speculation
  // Kept for their capacity.
  std::vector<DraftableSequence> draftable_;
  std::vector<ConstraintSet*> constraints_;  // per draftable sequence; null: unconstrained
  std::vector<Constrained> constrained_;
};

}  // namespace pagoda
