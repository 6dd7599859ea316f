#include "cli/assembly/memory_modes.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "kv_cache/paged_kv_manager.h"
#include "kv_cache/virtual_kv_manager.h"
#include "scheduler/fastertransformer_scheduler.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {
namespace {

constexpr double kBytesCopiedPerSecond = 4e9;  // for one thread; used until the first copy is measured

Result<EngineParts> make_baseline(const EngineFlags& flags, const EngineConfig& config,
                                  std::int64_t num_blocks) {
  ReservedKvConfig kv_config{.block_size = flags.block_size,
                             .num_blocks = static_cast<std::int32_t>(num_blocks),
                             .max_model_len = config.max_model_len,
                             .reservation = Reservation::max};
  if (flags.reserve == "oracle") kv_config.reservation = Reservation::oracle;
  if (flags.reserve == "pow2") kv_config.reservation = Reservation::pow2;
  auto kv = std::make_unique<ReservedKvManager>(kv_config);
  if (!kv->can_ever_reserve(1, 2, 0)) {
    return invalid_argument(concat("--reserve max: no region of --max-model-len ", config.max_model_len,
                                   " tokens fits into the KV cache of ", num_blocks * flags.block_size,
                                   " tokens; a region's size is a power of two"));
  }
  EngineParts parts;
  if (flags.scheduler == "orca")
    parts.scheduler = std::make_unique<OrcaScheduler>(config.scheduler_config(), *kv);
  else
    parts.scheduler = std::make_unique<FasterTransformerScheduler>(config.scheduler_config(), *kv);
  parts.kv = std::move(kv);
  return parts;
}

}  // namespace

bool is_baseline(const EngineFlags& flags) { return flags.scheduler != "vllm"; }

bool is_async(const EngineFlags& flags) {
  const bool ranks = flags.tensor_parallel_size > 1 || flags.mpi_local_size > 0;
  return flags.async_scheduling && !is_baseline(flags) && (!ranks || uses_device(flags));
}

SchedulingPolicy scheduling_policy(const EngineFlags& flags) {
  if (flags.scheduling_policy == "auto") {
    // A key file may get more keys while the server runs; with a single key, fair is equivalent to fcfs.
    const bool several = flags.server.api_keys.size() > 1 || !flags.server.api_key_file.empty();
    return several && !is_baseline(flags) ? SchedulingPolicy::fair : SchedulingPolicy::fcfs;
  }
  const auto* const known =
      std::ranges::find(kSchedulingPolicies, flags.scheduling_policy, &PolicyFacts::name);
  CHECK(known != std::end(kSchedulingPolicies));  // flag parsing allows only known names
  return static_cast<SchedulingPolicy>(known - std::begin(kSchedulingPolicies));
}

PreemptionMode preemption_mode(const EngineFlags& flags) {
  const auto* const known =
      std::ranges::find(kPreemptionPolicies, flags.preemption_mode, &PreemptionFacts::flag);
  CHECK(known != std::end(kPreemptionPolicies));  // flag parsing allows only known names
  return static_cast<PreemptionMode>(known - std::begin(kPreemptionPolicies));
}

std::string tier_flag(const EngineFlags& flags) {
  if (flags.kv_offloading_bytes > 0) return "--kv-offloading-size";
  if (!flags.kv_disk.empty()) return "--kv-disk";
  return flags.kv_transfer.enabled() ? "--kv-transfer-config" : "";
}

Status check_memory_modes(const EngineFlags& flags) {
  const std::string scheduler = concat("--scheduler ", flags.scheduler);
  if (is_baseline(flags) && (flags.kv_manager == "paged" || is_virtual(flags)))
    return invalid_argument(concat(scheduler, " needs --kv-manager reserved"));
  if (!is_baseline(flags) && flags.kv_manager == "reserved")
    return invalid_argument("--kv-manager reserved needs --scheduler orca or fastertransformer");
  if (!is_baseline(flags) && flags.reserve != "auto")
    return invalid_argument(concat("--reserve ", flags.reserve, " needs --kv-manager reserved"));
  if (is_baseline(flags) && scheduling_policy(flags) != SchedulingPolicy::fcfs)
    return invalid_argument(
        concat(scheduler, " serves requests in order of arrival: --scheduling-policy must be fcfs"));
  if (is_baseline(flags) && (flags.preemption_mode != "auto" || flags.swap_space_bytes > 0))
    return invalid_argument(
        concat(scheduler, " never preempts: --preemption-mode and --swap-space need --scheduler vllm"));
  if (is_baseline(flags) && flags.eviction_policy != "lru")
    return invalid_argument(concat(scheduler, " shares nothing: --eviction-policy needs --scheduler vllm"));
  if (const std::string tier = tier_flag(flags); !tier.empty()) {
    if (is_baseline(flags))
      return invalid_argument(concat(scheduler, " shares nothing: ", tier, " needs --scheduler vllm"));
    if (!flags.enable_prefix_caching)
      return invalid_argument(concat(tier, " offloads the prefix cache: it needs --enable-prefix-caching"));
    if (flags.tensor_parallel_size > 1)
      return invalid_argument(concat(tier, " works in one process: it needs --tensor-parallel-size 1"));
  }
  if (is_baseline(flags) && !flags.prefix_file.empty())
    return invalid_argument(
        concat(scheduler, " does not share prefixes: --prefix-file needs --scheduler vllm"));
  if (is_baseline(flags) && flags.target_itl_ms.value_or(0) > 0)
    return invalid_argument(
        concat(scheduler, " does not split prompts: --target-itl-ms needs --scheduler vllm"));
  if (is_baseline(flags) && flags.speculative)
    return invalid_argument(
        concat(scheduler, " does not support draft tokens: --speculative-config needs --scheduler vllm"));
  switch (facts(preemption_mode(flags)).recovery) {
    case Recovery::either:
    case Recovery::recomputed:
      break;
    case Recovery::swapped:
      if (flags.swap_space_bytes == 0)
        return invalid_argument(concat("--preemption-mode ", flags.preemption_mode, " needs --swap-space"));
  }
  return ok_status();
}

std::int64_t num_swap_blocks(const EngineFlags& flags, std::int64_t num_blocks, std::int64_t block_bytes) {
  if (flags.swap_space_bytes == 0) return 0;
  const std::int64_t blocks = flags.swap_space_bytes / flags.data_parallel_size / block_bytes;
  if (blocks == 0) {
    log_warning("start", concat("--swap-space of ", flags.swap_space_bytes,
                                " bytes is less than one block, which takes ", block_bytes, " bytes"));
  }
  return std::min(blocks, num_blocks);
}

std::int64_t num_offload_blocks(const EngineFlags& flags, std::int64_t block_bytes) {
  if (flags.kv_offloading_bytes == 0) return 0;
  const std::int64_t blocks = flags.kv_offloading_bytes / flags.data_parallel_size / block_bytes;
  if (blocks == 0)
    log_warning("start", concat("--kv-offloading-size of ", flags.kv_offloading_bytes,
                                " bytes is less than one block, which takes ", block_bytes, " bytes"));
  return std::min<std::int64_t>(blocks, std::int64_t{1} << 30);
}

void set_memory_modes(const EngineFlags& flags, std::int64_t block_bytes, EngineConfig& config) {
  config.preemption_mode = preemption_mode(flags);
  const auto* const eviction = std::ranges::find(kEvictionPolicies, flags.eviction_policy);
  CHECK(eviction != std::end(kEvictionPolicies));  // flag parsing allows only known names
  config.eviction = static_cast<Eviction>(eviction - std::begin(kEvictionPolicies));
  if (is_baseline(flags)) config.enable_prefix_caching = false;
  config.preemption_costs.per_block_copied = static_cast<double>(block_bytes) / kBytesCopiedPerSecond;
}

Result<EngineParts> make_memory_parts(const EngineFlags& flags, const EngineConfig& config,
                                      std::int64_t num_blocks, std::int64_t num_swap_blocks,
                                      const VirtualMemory* virtual_memory,
                                      std::function<bool(std::int64_t)> may_create) {
  if (is_baseline(flags)) return make_baseline(flags, config, num_blocks);
  EngineParts parts;
  const PagedKvConfig pages{.block_size = config.block_size,
                            .num_blocks = static_cast<std::int32_t>(num_blocks),
                            .num_swap_blocks = static_cast<std::int32_t>(num_swap_blocks),
                            .enable_prefix_caching = config.enable_prefix_caching,
                            .tiers = config.kv_tiers,
                            .peers = config.kv_peers,
                            .eviction = config.eviction,
                            .groups = config.kv_groups,
                            .whole_prompts = !config.enable_chunked_prefill};
  if (is_virtual(flags)) {
    const SlotMapConfig slots =
        virtual_memory != nullptr
            ? virtual_memory->slots
            : slot_map_config(flags, config.max_model_len,
                              config.kv_groups.value_or(one_full_group(config.block_size)));
    parts.kv = std::make_unique<VirtualKvManager>(VirtualKvConfig{
        .pages = pages,
        .slots = slots,
        .num_created = virtual_memory != nullptr && virtual_memory->num_created < num_blocks
                           ? virtual_memory->num_created
                           : 0,
        .may_create = std::move(may_create),
        .most_resident_free = virtual_memory != nullptr ? virtual_memory->most_resident_free : 0});
  } else {
    parts.kv = std::make_unique<PagedKvManager>(pages);
  }
  parts.scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *parts.kv);
  return parts;
}

}  // namespace pagoda
