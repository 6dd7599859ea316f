#pragma once
// The factory of a simulation's memory manager and scheduler. The server uses the same assembly code
// (cli/assembly/memory_modes.h), so valid combinations are listed in one place.
// Threads: any.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/engine_core.h"
#include "kv_cache/slot_map.h"

namespace pagoda {

// Values of the flags with these names.
struct EngineModes {
  std::string scheduler = "vllm";
  std::string kv_manager = "auto";
  std::string reserve = "auto";
  // Geometry of the virtual manager and its initial number of pages (0: all), if a recorded engine specifies
  // them; otherwise they follow from the flags. may_create decides on requests for more pages; if empty, all
  // are granted.
  std::optional<SlotMapConfig> slots = std::nullopt;
  std::int32_t num_created = 0;
  std::function<bool(std::int64_t)> may_create = {};
};

// True if K/V lies in blocks named by a block table: with the paged manager, and with Orca as the paper's
// authors built it (with vLLM's kernels). FasterTransformer's and vAttention's K/V is contiguous.
inline bool reads_through_block_tables(const EngineModes& modes) {
  return modes.scheduler != "fastertransformer" && modes.kv_manager != "virtual";
}

// Returns manager and scheduler, without a runner. Fails if the parts cannot be combined.
using PartsFactory =
    std::function<Result<EngineParts>(const EngineModes& modes, const EngineConfig& config,
                                      std::int64_t num_blocks, std::int64_t num_swap_blocks)>;

}  // namespace pagoda
