#include "cli/assembly/draft_model.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/hub_settings.h"
#include "cli/assembly/load_tokenizer.h"
#include "cli/assembly/model_overrides.h"
#include "engine/model_proposer.h"
#include "kv_cache/paged_kv_manager.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

const std::string kFlag = "--speculative-config";
// Models of a family often pad the same vocabulary to different sizes.
constexpr std::int32_t kMostFilling = 1024;

Status refuse(auto... why) { return invalid_argument(concat(kFlag, ": ", why...)); }

// Bytes of weights read per step.
std::int64_t weight_bytes(const MemoryPlan& memory) { return std::max<std::int64_t>(memory.weight_bytes, 1); }

Status check_vocabulary(const Tokenizer& served, const Tokenizer& drafts, const std::string& path) {
  const std::int32_t sizes[] = {served.vocab_size(), drafts.vocab_size()};
  if (std::abs(sizes[0] - sizes[1]) > kMostFilling)
    return refuse("'", printable(path), "' has a vocabulary of ", sizes[1],
                  " tokens, the served model one of ", sizes[0], ": a draft model has the same vocabulary");
  for (TokenId id = 0; id < std::min(sizes[0], sizes[1]); ++id) {
    if (served.token_string(id) == drafts.token_string(id)) continue;
    if (served.is_special(id) && drafts.is_special(id)) continue;  // names of unused tokens may differ
    return refuse("token ", id, " of '", printable(path), "' is \"", printable(drafts.token_string(id)),
                  "\", of the served model \"", printable(served.token_string(id)),
                  "\": a draft model has the same vocabulary");
  }
  return ok_status();
}

}  // namespace

bool drafts_by_model(const EngineFlags& flags) {
  return flags.speculative && flags.speculative->method == DraftMethod::draft_model;
}

Status check_draft_model(const EngineFlags& flags) {
  if (!drafts_by_model(flags)) return ok_status();
  if (uses_device(flags)) return refuse("a draft model runs on the CPU: it needs --device cpu");
  if (flags.tensor_parallel_size > 1)
    return refuse("a draft model runs in one process: it needs --tensor-parallel-size 1");
  return ok_status();
}

Result<DraftModel> DraftModel::load(const EngineFlags& flags, const LoadedModel& served,
                                    const Tokenizer* tokenizer) {
  const std::string& name = flags.speculative->model;
  PAGODA_ASSIGN_OR_RETURN(const std::string path, local_model(name));
  const auto open = [path]() -> Result<std::shared_ptr<const ModelSource>> {
    PAGODA_ASSIGN_OR_RETURN(auto source, open_with_adapters(path, {}, {}));
    return std::shared_ptr<const ModelSource>(std::move(source));
  };
  auto source = open();
  if (!source) return source.error().annotate(kFlag);
  PAGODA_ASSIGN_OR_RETURN(auto info, read_model_config(**source));
  if (tokenizer != nullptr) {
    const auto own = load_tokenizer(**source);
    if (!own) return own.error().annotate(kFlag);
    PAGODA_RETURN_IF_ERROR(check_vocabulary(*tokenizer, **own, name));
  }
  RunnerOptions options = served.options;
  options.model = std::make_shared<const ModelInfo>(info);
  options.dtype = options.kv_cache_dtype = "auto";
  options.kv_windows = false;
  options.max_context = info.decoder.max_positions;
  options.max_draft_tokens = 0;
  options.adapters = nullptr;  // adapters only apply to the served model
  options.reopen = open;
  // Both models share the state of the weight writer, but not the weights that engines share.
  auto caching = std::make_shared<WeightCaching>(*served.options.weight_caching);
  if (caching->share != nullptr) caching->share = std::make_shared<WeightShare>();
  options.weight_caching = std::move(caching);
  DraftModel draft;
  auto runner = LocalModelRunner::create(*source, options);
  if (!runner) return runner.error().annotate(kFlag);
  draft.runner_ = *std::move(runner);
  const std::vector<KvGroup>& groups = draft.runner_->kv_plan().groups;
  if (groups.size() != 1 || groups.front().is_state())
    return refuse("'", printable(name), "' keeps states, which rejected drafts cannot be taken back from");
  draft.block_size_ = options.block_size;
  draft.max_num_batched_tokens_ = options.max_num_batched_tokens;
  draft.cost_ = static_cast<double>(weight_bytes(draft.runner_->memory_plan())) /
                static_cast<double>(weight_bytes(served.runners.front().memory_plan()));
  log_info("start", concat("draft model ", printable(name), ": ", info.architecture, ", ",
                           info.decoder.num_layers(), " layers; ", flags.speculative->num_speculative_tokens,
                           " draft tokens a step at most; a step takes ", fixed(draft.cost_, 2),
                           " of the served model's time, by its weights"));
  if (draft.cost_ > 0.5)
    log_warning("start", concat(kFlag,
                                ": the draft model is hardly smaller than the served one, and drafts "
                                "save little or no time"));
  return draft;
}

std::int64_t DraftModel::kv_bytes_per_token() const { return runner_->kv_page_bytes() / block_size_; }

std::int64_t DraftModel::resident_bytes() const {
  return runner_->memory_plan().weight_bytes + runner_->embedding_bytes();
}

std::int64_t DraftModel::step_bytes() const {
  const MemoryPlan memory = runner_->memory_plan();
  return memory.activation_bytes + memory.buffer_bytes;
}

Result<std::unique_ptr<DraftProposer>> DraftModel::make_proposer(const EngineFlags& flags,
                                                                 const EnginePlan& plan) && {
  const std::int64_t num_blocks = std::max<std::int64_t>(plan.draft_tokens / block_size_, 2);
  PAGODA_RETURN_IF_ERROR(runner_->allocate_kv_cache(num_blocks));
  const DecoderConfig& decoder = runner_->config();
  const DraftModelConfig config{.speculative = *flags.speculative,
                                .max_num_seqs = plan.engine.max_num_seqs,
                                .max_num_batched_tokens = max_num_batched_tokens_,
                                .max_model_len = std::min(plan.kv.max_model_len, decoder.max_positions),
                                .vocab_size = decoder.vocab_size,
                                .served_vocab_size = plan.engine.vocab_size,
                                .cost = cost_};
  auto kv = std::make_unique<PagedKvManager>(
      PagedKvConfig{.block_size = block_size_, .num_blocks = static_cast<std::int32_t>(num_blocks)});
  return std::unique_ptr<DraftProposer>(
      std::make_unique<ModelProposer>(config, std::move(runner_), std::move(kv)));
}

}  // namespace pagoda
