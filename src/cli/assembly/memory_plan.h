#pragma once
// Divides the process's memory: the size of the KV cache, and the ledger (base/memory_budget.h) of what is
// reserved at start and what is left for clients, based on the host's memory (tensor/system_limits.h). Units:
// bytes. Errors name the flag. Threads: any.
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
  // Measured with the weights loaded, before the cache is created: memory still available, and memory used by
  // this process.
  std::int64_t available_bytes = 0, private_bytes = 0;
};

// The host's remaining memory, within cgroups and setrlimit.
struct HostMemory {
  std::int64_t available_bytes = 0;
  std::int64_t private_bytes = 0;  // used by this process
  std::int64_t mappings = 0;       // mappings that this process may still create
};
HostMemory host_memory();

// Computes the number of blocks and the context length. A device's KV cache is sized by its own memory, which
// nothing else uses; its swap space is in the process's memory.
Result<KvPlan> plan_kv_cache(const EngineFlags& flags, std::int32_t max_positions,
                             std::span<const KvGroup> groups, std::int64_t block_bytes,
                             const LoadedRunner::KvHeadroom& room, const HostMemory& host);

// Creates the ledger with the accounts reserved at start. Memory on a device does not count as this process's
// memory.
std::unique_ptr<MemoryBudget> make_ledger(const MemoryTable& memory, const KvPlan& plan, bool on_device);
// Adds the account for adapters that requests choose. Adapters loaded at start are guaranteed their bytes;
// later ones may use half of the rest.
MemoryBudget::AccountId add_adapter_account(MemoryBudget& ledger, const MemoryTable& memory);
// Limits `options` to the share of grammars. As many grammars are compiled concurrently as there are compute
// threads, up to four.
MemoryReservation set_aside_for_grammars(MemoryBudget& ledger, int num_threads,
                                         GrammarService::Options& options);

void log_memory_table(const MemoryTable& memory, const ModelInfo& model, const EngineFlags& flags,
                      std::int32_t max_model_len);
// Logs the memory left for clients after the server has added its accounts.
void log_ledger(const MemoryBudget& ledger);

}  // namespace pagoda
