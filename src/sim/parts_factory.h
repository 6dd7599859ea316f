#pragma once
// How a simulation gets its memory manager and scheduler: from whoever puts them together for the server too
// (cli/assembly/memory_modes.h), so that there is one list of what goes with what.
// Threads: any.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/engine_core.h"
#include "kv_cache/slot_map.h"

namespace pagoda {

// Values of the flags of these names.
struct EngineModes {
  std::string scheduler = "vllm";
  std::string kv_manager = "auto";
  std::string reserve = "auto";
  // The virtual manager's geometry and how many pages it begins with (0: all), where a recorded engine tells;
  // else from the flags. may_create answers when it asks for more; absent: yes.
  std::optional<SlotMapConfig> slots = std::nullopt;
  std::int32_t num_created = 0;
  std::function<bool(std::int64_t)> may_create = {};
};

// Whether K/V lie in blocks that a table names: the paged manager's, and Orca's as the paper's authors built
// it (with vLLM's kernels). FasterTransformer's and vAttention's are contiguous.
inline bool reads_through_block_tables(const EngineModes& modes) {
  return modes.scheduler != "fastertransformer" && modes.kv_manager != "virtual";
}

// Manager and scheduler; the runner is still missing. Fails with what cannot go together.
using PartsFactory =
    std::function<Result<EngineParts>(const EngineModes& modes, const EngineConfig& config,
                                      std::int64_t num_blocks, std::int64_t num_swap_blocks)>;

}  // namespace pagoda
