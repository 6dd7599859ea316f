#pragma once
// DraftModel: the model of --speculative-config with the method "draft_model", loaded beside the served one,
// and the proposer that it becomes (engine/model_proposer.h). It runs on the CPU, in one process.
// Threads: the one that starts.
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cli/assembly/engine_plan.h"
#include "cli/assembly/loaded_model.h"
#include "cli/flags/engine_flags.h"
#include "decoding/draft_proposer.h"
#include "model_runner/local_model_runner.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

bool drafts_by_model(const EngineFlags& flags);
// invalid_argument: flags with which no model drafts.
Status check_draft_model(const EngineFlags& flags);

class DraftModel {
 public:
  // For one engine. `tokenizer` is the served model's, or null. invalid_argument: the model does not fit to
  // the served one: another vocabulary, or states, which rejected drafts could not be taken back from.
  static Result<DraftModel> load(const EngineFlags& flags, const LoadedModel& served,
                                 const Tokenizer* tokenizer);

  std::int64_t kv_bytes_per_token() const;
  // Weights, and the memory of a step.
  std::int64_t resident_bytes() const;
  std::int64_t step_bytes() const;

  // Allocates its KV cache and gives up the model.
  Result<std::unique_ptr<DraftProposer>> make_proposer(const EngineFlags& flags, const EnginePlan& plan) &&;

 private:
  DraftModel() = default;

  std::unique_ptr<LocalModelRunner> runner_;
  std::int32_t block_size_ = 0, max_num_batched_tokens_ = 0;
  double cost_ = 0;
};

}  // namespace pagoda
