#pragma once
// DraftModel: the model of --speculative-config with the method "draft_model", loaded in addition to the
// served one, and converted into a proposer (engine/model_proposer.h). It runs on the CPU, in a single
// process.
// Threads: the starting thread.
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
// invalid_argument: flags that conflict with a draft model.
Status check_draft_model(const EngineFlags& flags);

class DraftModel {
 public:
  // For one engine. `tokenizer` is the served model's, or null. invalid_argument: the draft model is
  // incompatible with the served one: another vocabulary, or states, which cannot be rolled back after
  // rejected drafts.
  static Result<DraftModel> load(const EngineFlags& flags, const LoadedModel& served,
                                 const Tokenizer* tokenizer);

  std::int64_t kv_bytes_per_token() const;
  // Bytes of the weights, and of a step.
  std::int64_t resident_bytes() const;
  std::int64_t step_bytes() const;

  // Allocates the draft model's KV cache and hands over the model.
  Result<std::unique_ptr<DraftProposer>> make_proposer(const EngineFlags& flags, const EnginePlan& plan) &&;

 private:
  DraftModel() = default;

  std::unique_ptr<LocalModelRunner> runner_;
  std::int32_t block_size_ = 0, max_num_batched_tokens_ = 0;
  double cost_ = 0;
};

}  // namespace pagoda
