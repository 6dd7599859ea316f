#include "cli/assembly/runner_options.h"

#include <algorithm>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/assembly/default_model.h"
#include "cli/assembly/machine.h"
#include "cli/assembly/memory_modes.h"
#include "cli/assembly/model_overrides.h"
#include "cli/assembly/ranks.h"
#include "cli/assembly/virtual_memory.h"
#include "cli/assembly/weight_caching.h"

namespace pagoda {
namespace {

// The default limit of prompt tokens per step. On a few cores 256 tokens take about a tenth of a second,
// which bounds the time that other streams wait for their next token. On a GPU, products of 2,048 rows are
// close to maximum efficiency.
std::int32_t default_token_budget(const EngineFlags& flags) { return flags.device == "cuda" ? 2048 : 256; }

Result<std::optional<CpuLevel>> cpu_level(const std::string& name) {
  if (name == "auto") {
    if (cpu_level_usable(detected_cpu_level())) return std::optional<CpuLevel>{};
    return unavailable(
        "this build is for another machine's processor (PAGODA_NATIVE); `script/build pagoda` builds for "
        "all");
  }
  const std::optional<CpuLevel> level = cpu_level_named(name);
  if (!level)
    return invalid_argument(concat("--cpu-level ", name, ": expected auto, portable, avx2 or avx512"));
  if (!cpu_level_usable(*level)) {
    return invalid_argument(concat("--cpu-level ", name, ": this CPU, or this build, only has ",
                                   cpu_level_name(detected_cpu_level())));
  }
  return level;
}

}  // namespace

int num_threads(const EngineFlags& flags) { return flags.threads > 0 ? flags.threads : usable_cores(); }

Result<std::string> model_path(const EngineFlags& flags) {
  if (!flags.model.empty()) return flags.model;
  return default_model();
}

Result<RunnerOptions> runner_options(const EngineFlags& flags, const ModelInfo& model) {
  PAGODA_ASSIGN_OR_RETURN(auto level, cpu_level(flags.cpu_level));
  RunnerOptions options;
  options.model = std::make_shared<const ModelInfo>(model);
  options.dtype = flags.dtype;
  options.kv_cache_dtype = flags.kv_cache_dtype;
  options.threads = threads_per_rank(flags);
  options.block_size = flags.block_size;
  options.max_num_seqs = flags.max_num_seqs;
  if (flags.speculative) options.max_draft_tokens = flags.speculative->num_speculative_tokens;
  options.backend = flags.backend == "reference" ? Backend::reference : Backend::cpu;
  options.cpu_level = level;
  options.weight_caching = weight_caching(flags);
  options.reopen = [path = model_path(flags), overrides = model_overrides(flags),
                    adapters = flags.adapters]() -> Result<std::shared_ptr<const ModelSource>> {
    if (!path) return path.error();
    if (!overrides) return overrides.error();
    PAGODA_ASSIGN_OR_RETURN(auto source, open_with_adapters(*path, *overrides, adapters));
    return std::shared_ptr<const ModelSource>(std::move(source));
  };
  const std::int32_t max_model_len =
      flags.max_model_len.has_value() && *flags.max_model_len != kMaxModelLenAuto
          ? *flags.max_model_len
          : model.decoder.max_positions;
  // The papers' baselines keep the K/V behind a window.
  options.kv_windows = !is_baseline(flags);
  options.max_context = max_model_len;
  // A whole prompt must fit in a step if it may not be split.
  const std::int32_t least = flags.enable_chunked_prefill && !is_encoder(model.decoder)
                                 ? flags.max_num_seqs
                                 : std::max(max_model_len, flags.max_num_seqs);
  options.max_num_batched_tokens =
      flags.max_num_batched_tokens.value_or(std::max(default_token_budget(flags), least));
  if (options.max_num_batched_tokens < 1)
    return invalid_argument("--max-num-batched-tokens must be at least 1");
  return options;
}

}  // namespace pagoda
