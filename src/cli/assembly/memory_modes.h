#pragma once
// EngineFlags -> which memory manager and scheduler serve them, and how they share the bytes.
#include <functional>
#include <memory>

#include "base/status.h"
#include "cli/assembly/virtual_memory.h"
#include "cli/flags/engine_flags.h"
#include "engine/engine_core.h"

namespace pagoda {

bool is_baseline(const EngineFlags& flags);  // one of the paper's, which neither split prompts nor preempt

// --async-scheduling, where it has an effect: with one rank, and a scheduler that can plan ahead.
bool is_async(const EngineFlags& flags);

// `auto` is fair where clients have several keys, else fcfs.
SchedulingPolicy scheduling_policy(const EngineFlags& flags);
PreemptionMode preemption_mode(const EngineFlags& flags);

// The combinations that cannot work, naming the flag. Needs no model.
Status check_memory_modes(const EngineFlags& flags);

// Blocks of --swap-space: never more than the KV cache has.
std::int64_t num_swap_blocks(const EngineFlags& flags, std::int64_t num_blocks, std::int64_t block_bytes);

// The first flag that asks for a tier of the KV cache; empty: none does.
std::string tier_flag(const EngineFlags& flags);
// Blocks of --kv-offloading-size.
std::int64_t num_offload_blocks(const EngineFlags& flags, std::int64_t block_bytes);

// Fills in what concerns memory; `block_bytes` gives the first draft of a copy's cost.
void set_memory_modes(const EngineFlags& flags, std::int64_t block_bytes, EngineConfig& config);

// Manager and scheduler; the runner is still missing. For --kv-manager virtual,
// `virtual_memory` says what the system allows; without it there are no such limits.
Result<EngineParts> make_memory_parts(const EngineFlags& flags, const EngineConfig& config,
                                      std::int64_t num_blocks, std::int64_t num_swap_blocks,
                                      const VirtualMemory* virtual_memory = nullptr,
                                      std::function<bool(std::int64_t)> may_create = {});

}  // namespace pagoda
