#pragma once
// EngineConfig: the engine's own settings, named after the flags. The manager, scheduler and runner behind
// the interfaces are chosen in cli/assembly.
#include <cstdint>
#include <optional>

#include "decoding/speculative_config.h"
#include "kv_cache/eviction_order.h"
#include "request/kv_groups.h"
#include "request/rotation_rule.h"
#include "scheduler/scheduler.h"

namespace pagoda {

struct EngineConfig {
  std::int32_t engine = 0;                     // index of this engine in the process
  std::int32_t max_model_len = 0;              // at most the model's own limit
  std::int32_t max_num_seqs = 256;             // sequences in one step
  std::int32_t max_num_batched_tokens = 2048;  // tokens in one step; without chunked prefill >= max_model_len
  std::int32_t max_adapters = 0;               // limit on distinct adapters of running requests; 0: no limit
  std::int32_t block_size = 16;                // --kv-manager virtual: any; otherwise 1..256
  // The KV groups of the model's layers; absent: one full-attention group, with one block per row.
  std::optional<std::vector<KvGroup>> kv_groups = {};
  RotationRule rotation = {};  // from the model
  bool enable_prefix_caching = true;
  Eviction eviction = Eviction::lru;  // order in which the prefix cache evicts
  bool kv_tiers = false;              // the runner has tiers for rows of the prefix cache
  bool kv_peers = false;              // the runner can ask other servers for rows
  bool enable_chunked_prefill = true;
  SchedulingPolicy scheduling_policy = SchedulingPolicy::fcfs;
  PreemptionMode preemption_mode = PreemptionMode::automatic;
  PreemptionCosts preemption_costs = {};  // estimates, until they are measured
  std::int64_t max_waiting = 1024;        // requests not yet admitted; more are refused
  double max_queue_s = 0;                 // requests that would wait longer are refused; 0: no limit
  std::uint64_t seed = 0;                 // generates the seeds of requests without one
  std::int32_t vocab_size = 0;
  double target_itl_ms = 0;  // target for the longest step that delays running streams; 0: no limit
  std::optional<SpeculativeConfig> speculative = {};  // absent: no speculative decoding
  // Tokens forced by a constraint become drafts, which are always correct. For schedulers that support
  // drafts.
  bool forced_drafts = false;
  bool async_scheduling = false;  // steps are planned while the previous one runs, if the runner supports it
  bool log_stats = true;          // log a line every 10 s while busy

  SchedulerConfig scheduler_config() const {
    return {.max_num_seqs = max_num_seqs,
            .max_num_batched_tokens = max_num_batched_tokens,
            .max_model_len = max_model_len,
            .enable_chunked_prefill = enable_chunked_prefill,
            .policy = scheduling_policy,
            .preemption_mode = preemption_mode,
            .max_adapters = max_adapters};
  }
};

// Rejects combinations that cannot work, naming the flag.
inline Status validate(const EngineConfig& config) {
  if (config.max_model_len < 2) return invalid_argument("--max-model-len must be at least 2");
  if (config.max_num_seqs < 1) return invalid_argument("--max-num-seqs must be at least 1");
  if (config.max_adapters < 0) return invalid_argument("--max-loras must be at least 1");
  if (config.max_num_batched_tokens < 1)
    return invalid_argument("--max-num-batched-tokens must be at least 1");
  if (config.block_size < 1) return invalid_argument("--block-size must be at least 1");
  if (!config.enable_chunked_prefill && config.max_num_batched_tokens < config.max_model_len) {
    return invalid_argument(
        "--no-enable-chunked-prefill needs --max-num-batched-tokens of at least --max-model-len: a prompt "
        "runs whole in one step");
  }
  if (!(config.max_queue_s >= 0 && config.max_queue_s <= 86'400))
    return invalid_argument("--max-queue-time must be from 0 to 86400");
  if (!(config.target_itl_ms >= 0 && config.target_itl_ms <= 1e6))
    return invalid_argument("--target-itl-ms must be from 0 to 1000000");
  if (config.target_itl_ms > 0 && !config.enable_chunked_prefill) {
    return invalid_argument(
        "--target-itl-ms splits prompts over steps: it cannot be used with --no-enable-chunked-prefill");
  }
  if (config.speculative) {
    if (const Status status = validate(*config.speculative); !status.ok())
      return invalid_argument("--speculative-config: " + std::string(status.message()))
          .with_param("speculative-config");
  }
  return ok_status();
}

}  // namespace pagoda
