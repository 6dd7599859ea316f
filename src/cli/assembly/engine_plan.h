#pragma once
// plan_engine: computes an engine's sizes from flags, a loaded model and the host's memory: pages, context
// length, swap space, scheduling. It allocates nothing and makes no system calls, so tests can plan for any
// machine. assemble.cc loads the model before and builds the engine after. Errors name the flag. Threads:
// any; pure, except for warnings in the log.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/assembly/memory_plan.h"
#include "cli/assembly/virtual_memory.h"
#include "cli/flags/engine_flags.h"
#include "engine/engine_config.h"
#include "request/kv_groups.h"

namespace pagoda {

// The sizes of a loaded model and of its runner.
struct ModelNumbers {
  std::int32_t max_positions = 0, vocab_size = 0;
  std::int32_t max_num_batched_tokens = 0;
  KvGroupPlan kv_plan;   // without groups there is no K/V (encoders)
  KvLayout page_layout;  // layout of a page
  std::int64_t page_granule = 0;
  std::int64_t kv_block_bytes = 0;     // total of all ranks
  std::vector<std::int32_t> kv_heads;  // by rank
  LoadedRunner::KvHeadroom kv_room;
  RotationRule rotation;
  std::int64_t draft_bytes_per_token = 0;  // draft model's K/V per token; 0: no draft model
};
// `runners` are identical, one for each engine.
ModelNumbers model_numbers(std::span<LoadedRunner> runners, const ModelInfo& model,
                           std::int32_t max_num_batched_tokens);

// The plan of each engine. The engines divide the memory.
struct EnginePlan {
  EngineConfig engine;
  KvGroupPlan groups;  // with the block size of this cache
  KvPlan kv;
  std::int64_t block_bytes = 0, num_swap_blocks = 0, num_offload_blocks = 0;
  std::int64_t draft_tokens = 0, draft_kv_bytes = 0;  // size of the draft model's KV cache
  std::optional<VirtualMemory> virtual_memory;        // for --kv-manager virtual
};
Result<EnginePlan> plan_engine(const EngineFlags& flags, const ModelNumbers& model, const HostMemory& host);

}  // namespace pagoda
