#pragma once
// Chooses the memory manager and scheduler from EngineFlags, and divides memory between them.
#include <functional>
#include <memory>

#include "base/status.h"
#include "cli/assembly/virtual_memory.h"
#include "cli/flags/engine_flags.h"
#include "engine/engine_core.h"

namespace pagoda {

// One of the paper's baselines, which neither split prompts nor preempt.
bool is_baseline(const EngineFlags& flags);

// True if --async-scheduling has an effect: with a single rank, and a scheduler that can plan ahead.
bool is_async(const EngineFlags& flags);

// `auto` means fair if clients have several keys, otherwise fcfs.
SchedulingPolicy scheduling_policy(const EngineFlags& flags);
PreemptionMode preemption_mode(const EngineFlags& flags);

// Rejects invalid combinations, naming the flag. Needs no model.
Status check_memory_modes(const EngineFlags& flags);

// Number of blocks for --swap-space, at most that of the KV cache.
std::int64_t num_swap_blocks(const EngineFlags& flags, std::int64_t num_blocks, std::int64_t block_bytes);

// Returns the first flag that requests a KV cache tier; empty if none does.
std::string tier_flag(const EngineFlags& flags);
// Number of blocks for --kv-offloading-size.
std::int64_t num_offload_blocks(const EngineFlags& flags, std::int64_t block_bytes);

// Sets the fields that concern memory; `block_bytes` gives an initial estimate of the cost of a copy.
void set_memory_modes(const EngineFlags& flags, std::int64_t block_bytes, EngineConfig& config);

// Creates manager and scheduler; the runner is set later. `virtual_memory`: the system's limits for
// --kv-manager virtual; null: no limits.
Result<EngineParts> make_memory_parts(const EngineFlags& flags, const EngineConfig& config,
                                      std::int64_t num_blocks, std::int64_t num_swap_blocks,
                                      const VirtualMemory* virtual_memory = nullptr,
                                      std::function<bool(std::int64_t)> may_create = {});

}  // namespace pagoda
