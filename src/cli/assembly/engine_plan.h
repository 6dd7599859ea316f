#pragma once
// plan_engine: the numbers of an engine, from flags, a loaded model and the host's memory: pages, context
// length, swap space, scheduling. It allocates nothing and asks the system nothing, so tests plan engines for
// any machine. assemble.cc loads the model before it, and builds and connects the engine after it. Errors
// name the flag. Threads: any; pure, but for warnings in the log.
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

// Numbers of a loaded model and the runner that holds it.
struct ModelNumbers {
  std::int32_t max_positions = 0, vocab_size = 0;
  std::int32_t max_num_batched_tokens = 0;
  KvGroupPlan kv_plan;   // without groups nothing is kept (encoders)
  KvLayout page_layout;  // layout of a page
  std::int64_t page_granule = 0;
  std::int64_t kv_block_bytes = 0;     // all ranks together
  std::vector<std::int32_t> kv_heads;  // by rank
  LoadedRunner::KvHeadroom kv_room;
  RotationRule rotation;
  std::int64_t draft_bytes_per_token = 0;  // a draft model's K/V takes these; 0: there is none
};
// The runners are alike, one for each engine.
ModelNumbers model_numbers(std::span<LoadedRunner> runners, const ModelInfo& model,
                           std::int32_t max_num_batched_tokens);

// The plan of each engine; they divide the memory.
struct EnginePlan {
  EngineConfig engine;
  KvGroupPlan groups;  // with this cache's block size
  KvPlan kv;
  std::int64_t block_bytes = 0, num_swap_blocks = 0, num_offload_blocks = 0;
  std::int64_t draft_tokens = 0, draft_kv_bytes = 0;  // room of a draft model's KV cache
  std::optional<VirtualMemory> virtual_memory;        // for --kv-manager virtual
};
Result<EnginePlan> plan_engine(const EngineFlags& flags, const ModelNumbers& model, const HostMemory& host);

}  // namespace pagoda
