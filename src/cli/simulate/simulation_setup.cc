#include "cli/simulate/simulation_setup.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/memory_modes.h"
#include "cli/assembly/virtual_memory.h"
#include "sim/simulated_page_mapper.h"

namespace pagoda {
namespace {

constexpr std::int32_t kTokenBudget = 2048;
// vLLM's budget at the time of the paper, when prompts were not split.
constexpr std::int32_t kWholePromptBudget = 2560;

}  // namespace

PartsFactory parts_factory(const EngineFlags& flags) {
  return [flags](const EngineModes& modes, const EngineConfig& config, std::int64_t num_blocks,
                 std::int64_t num_swap_blocks) -> Result<EngineParts> {
    EngineFlags chosen = flags;
    chosen.scheduler = modes.scheduler;
    chosen.kv_manager = modes.kv_manager;
    chosen.reserve = modes.reserve;
    chosen.block_size = config.block_size;
    chosen.scheduling_policy = facts(config.scheduling_policy).name;
    chosen.preemption_mode = facts(config.preemption_mode).flag;
    chosen.swap_space_bytes = num_swap_blocks;  // only whether it is above 0 matters
    for (const auto& [value, known] : {std::pair(modes.scheduler, "vllm orca fastertransformer"),
                                       std::pair(modes.kv_manager, "auto paged reserved virtual"),
                                       std::pair(modes.reserve, "auto oracle pow2 max")}) {
      const bool is_word = !value.empty() && value.find(' ') == std::string::npos;
      if (!is_word || concat(' ', known, ' ').find(concat(' ', value, ' ')) == std::string::npos)
        return invalid_argument(concat("\"", value, "\" is not one of: ", known));
    }
    PAGODA_RETURN_IF_ERROR(check_memory_modes(chosen));
    chosen.max_num_seqs = config.max_num_seqs;
    VirtualMemory memory;
    if (modes.slots) {
      memory.slots = *modes.slots;
      memory.num_created = modes.num_created;
    }
    return make_memory_parts(
        chosen, config, num_blocks, num_swap_blocks, modes.slots ? &memory : nullptr,
        modes.may_create ? modes.may_create : [](std::int64_t) { return true; });
  };
}

Result<SimulationOptions> simulation_options(const EngineFlags& flags, const CostModel& cost) {
  PAGODA_RETURN_IF_ERROR(check_memory_modes(flags));
  if (flags.speculative)
    return invalid_argument(
        "--speculative-config needs a model: simulated tokens have no repetitions to draft from");
  SimulationOptions out;
  out.cost = cost;
  double block_bytes = cost.kv_bytes_per_token * flags.block_size;
  if (is_virtual(flags)) {  // whole driver pages, in each tensor and on each rank
    out.map_tensors = flags.kv_slicing ? 1 : cost.num_layers;
    block_bytes = std::max(block_bytes, mapped_block_bytes(cost, flags.block_size, 1, out.map_tensors) *
                                            out.map_tensors * cost.tensor_parallel_size);
  }
  const double kv_bytes =
      flags.kv_cache_memory_bytes ? static_cast<double>(*flags.kv_cache_memory_bytes) : cost.kv_cache_bytes;
  if (kv_bytes / block_bytes >= double{1 << 30})
    return invalid_argument("the KV cache would have too many blocks: lower --kv-cache-memory-bytes");
  out.num_blocks = static_cast<std::int64_t>(kv_bytes / block_bytes);
  if (out.num_blocks < 2)
    return invalid_argument("the KV cache holds less than two blocks: raise --kv-cache-memory-bytes");
  out.num_swap_blocks = num_swap_blocks(flags, out.num_blocks, static_cast<std::int64_t>(block_bytes));
  out.tiers = {.num_blocks = num_offload_blocks(flags, static_cast<std::int64_t>(block_bytes)),
               .block_bytes = block_bytes,
               .bytes_per_s = cost.swap_bytes_per_s * cost.tensor_parallel_size};
  const std::int64_t capacity = out.num_blocks * flags.block_size;
  const bool asked = flags.max_model_len.has_value() && *flags.max_model_len != kMaxModelLenAuto;
  const std::int32_t wanted = asked ? *flags.max_model_len : cost.max_model_len;
  if (wanted > cost.max_model_len) {
    return invalid_argument(concat("--max-model-len ", wanted, " is more than the ", cost.max_model_len,
                                   " positions of the cost model"));
  }
  if (asked && wanted > capacity)
    return invalid_argument(concat("--max-model-len ", wanted, " does not fit into the KV cache of ",
                                   capacity,
                                   " tokens: raise --kv-cache-memory-bytes or lower --max-model-len"));
  EngineConfig& config = out.engine;
  config.max_model_len = static_cast<std::int32_t>(std::min<std::int64_t>(wanted, capacity));
  config.max_num_seqs = flags.max_num_seqs;
  // A measured machine uses the token budget of its server (runner_options.cc).
  const bool was_measured = cost.max_num_batched_tokens > 0;
  const std::int32_t usual = was_measured                   ? cost.max_num_batched_tokens
                             : flags.enable_chunked_prefill ? kTokenBudget
                                                            : kWholePromptBudget;
  const std::int32_t least =
      std::max({usual, flags.enable_chunked_prefill ? 0 : config.max_model_len,
                flags.enable_chunked_prefill || was_measured ? flags.max_num_seqs : 0});
  config.max_num_batched_tokens = flags.max_num_batched_tokens.value_or(least);
  config.block_size = flags.block_size;
  config.target_itl_ms = flags.target_itl_ms.value_or(0);
  config.enable_prefix_caching = flags.enable_prefix_caching;
  config.kv_tiers = out.tiers.num_blocks > 0;
  config.enable_chunked_prefill = flags.enable_chunked_prefill;
  config.async_scheduling = flags.async_scheduling;
  config.scheduling_policy = scheduling_policy(flags);
  set_memory_modes(flags, static_cast<std::int64_t>(block_bytes), config);
  config.preemption_costs.per_block_copied =
      cost.swap_block_s + block_bytes / cost.tensor_parallel_size / cost.swap_bytes_per_s;
  config.max_waiting = flags.max_queue;
  config.max_queue_s = flags.max_queue_time_s.value_or(0);
  config.seed = flags.seed;
  config.vocab_size = cost.vocab_size;
  config.log_stats = false;
  PAGODA_RETURN_IF_ERROR(validate(config));
  out.modes = {.scheduler = flags.scheduler, .kv_manager = flags.kv_manager, .reserve = flags.reserve};
  out.seed = flags.seed;
  out.make_parts = parts_factory(flags);
  return out;
}

}  // namespace pagoda
