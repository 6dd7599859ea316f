#include "cli/memory_modes.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr double kBytesCopiedPerSecond = 4e9;  // of one thread; until the first copy is measured

}  // namespace

Status check_memory_modes(const EngineFlags& flags) {
  if (flags.preemption_mode == "swap" && flags.swap_space_bytes == 0)
    return invalid_argument("--preemption-mode swap needs --swap-space");
  return ok_status();
}

std::int64_t num_swap_blocks(const EngineFlags& flags, std::int64_t num_blocks, std::int64_t block_bytes) {
  if (flags.swap_space_bytes == 0) return 0;
  const std::int64_t blocks = flags.swap_space_bytes / block_bytes;
  if (blocks == 0) {
    log_warning("start", concat("--swap-space of ", flags.swap_space_bytes,
                                " bytes holds no block; one takes ", block_bytes, " bytes"));
  }
  return std::min(blocks, num_blocks);
}

void set_memory_modes(const EngineFlags& flags, std::int64_t block_bytes, EngineConfig& config) {
  config.preemption_mode = flags.preemption_mode == "swap"        ? PreemptionMode::swap
                           : flags.preemption_mode == "recompute" ? PreemptionMode::recompute
                                                                  : PreemptionMode::automatic;
  config.preemption_costs.per_block_copied = static_cast<double>(block_bytes) / kBytesCopiedPerSecond;
}

}  // namespace pagoda
