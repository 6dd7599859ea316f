#pragma once
// How a simulation gets its memory manager and scheduler: from whoever puts them together for the server too
// (cli/memory_modes.h), so that there is one list of what goes with what.
// Threads: any.
#include <cstdint>
#include <functional>
#include <string>

#include "engine/engine_core.h"

namespace pagoda {

// Values of the flags of these names.
struct EngineModes {
  std::string scheduler = "vllm";
  std::string kv_manager = "auto";
  std::string reserve = "auto";
};

// Manager and scheduler; the runner is still missing. Fails with what cannot go together.
using PartsFactory =
    std::function<Result<EngineParts>(const EngineModes& modes, const EngineConfig& config,
                                      std::int64_t num_blocks, std::int64_t num_swap_blocks)>;

}  // namespace pagoda
