#include "engine/engine_sleep.h"

#include <algorithm>

namespace pagoda {

Status EngineSleep::sleep(std::int32_t level, DraftProposer* proposer) {
  if (level > 0) {
    // Kept requests resume where they stopped, and prefixes stay pinned, so their K/V is kept.
    const bool empty = kv_.num_free_blocks() == kv_.num_blocks() &&
                       kv_.swap().num_free_swap_blocks() == kv_.swap().num_swap_blocks();
    PAGODA_RETURN_IF_ERROR(
        runner_.release_memory(empty ? ModelRunner::KvContent::drop : ModelRunner::KvContent::keep));
  }
  level_ = std::max(level, level_);
  sleeping_.weights = sleeping_.kv_cache = level_ > 0;
  sleeping_.scheduling = true;
  observers_.notify(&StepObserver::on_sleep, level_);
  return level > 0 && proposer != nullptr ? proposer->release_memory() : ok_status();
}

Status EngineSleep::wake_up(const WakeOrder& order, DraftProposer* proposer) {
  if (!asleep()) return ok_status();
  if (order.weights && sleeping_.weights) {
    PAGODA_RETURN_IF_ERROR(runner_.load_weights());
    if (proposer != nullptr) PAGODA_RETURN_IF_ERROR(proposer->load_weights());
    sleeping_.weights = false;
  }
  if (order.kv_cache) sleeping_.kv_cache = false;  // its memory is restored as it is used
  if (sleeping_.weights || sleeping_.kv_cache) return ok_status();
  level_ = -1;
  observers_.notify(&StepObserver::on_sleep, level_);
  return ok_status();
}

}  // namespace pagoda
