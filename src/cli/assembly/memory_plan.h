#pragma once
// How the process's memory is divided: the KV cache's size, and the ledger (base/memory_budget.h) of what is
// taken at start and what is left for clients, from what the host has (tensor/system_limits.h). Units: bytes.
// Errors name the flag. Threads: any.
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory_budget.h"
#include "base/status.h"
#include "cli/assembly/assemble.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/flags/engine_flags.h"
#include "constraint/grammar_service.h"
#include "models/model_info.h"
#include "request/kv_groups.h"

namespace pagoda {

struct KvPlan {
  std::int64_t num_blocks = 0;
  std::int32_t max_model_len = 0;
  // With the weights loaded and the cache still to be made: what may still be taken, and what is taken.
  std::int64_t available_bytes = 0, private_bytes = 0;
};

// The memory that the host has left, within cgroups and setrlimit.
struct HostMemory {
  std::int64_t available_bytes = 0;
  std::int64_t private_bytes = 0;  // this process's
  std::int64_t mappings = 0;       // that it may still make
};
HostMemory host_memory();

// The number of blocks and the context that they allow. A device's room is its own memory, where nothing else
// grows; its swap space is the process's.
Result<KvPlan> plan_kv_cache(const EngineFlags& flags, std::int32_t max_positions,
                             std::span<const KvGroup> groups, std::int64_t block_bytes,
                             const LoadedRunner::KvHeadroom& room, const HostMemory& host);

// With the accounts of what is taken at start. What lies on a device is not this process's memory.
std::unique_ptr<MemoryBudget> make_ledger(const MemoryTable& memory, const KvPlan& plan, bool on_device);
// Adds the account of adapters that requests choose. Those of the start are promised their bytes; others may
// have half of what is left.
MemoryBudget::AccountId add_adapter_account(MemoryBudget& ledger, const MemoryTable& memory);
// Cuts `options` down to its share; as many grammars at once as compute threads, up to four.
MemoryReservation set_aside_for_grammars(MemoryBudget& ledger, int num_threads,
                                         GrammarService::Options& options);

void log_memory_table(const MemoryTable& memory, const ModelInfo& model, const EngineFlags& flags,
                      std::int32_t max_model_len);
// Logs the memory left for clients, once the server has its accounts.
void log_ledger(const MemoryBudget& ledger);

}  // namespace pagoda
