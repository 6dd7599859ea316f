// How EngineCore sleeps: what it gives back, and when it computes again.
#include <algorithm>

#include "engine/engine_core.h"

namespace pagoda {

void EngineCore::reset_prefix_cache() {
  if (observer_ != nullptr) observer_->on_reset_prefix_cache();
  parts_.kv->sharing().clear_prefix_cache();
  update_gauges(0);
}

Status EngineCore::sleep(std::int32_t level) {
  if (!status_.ok()) return status_;
  if (level > 0) {
    reset_prefix_cache();
    // Requests that are kept go on where they stood, and prefixes stay pinned: their K/V with them.
    const KvManager& kv = *parts_.kv;
    const bool empty = kv.num_free_blocks() == kv.num_blocks() &&
                       kv.swap().num_free_swap_blocks() == kv.swap().num_swap_blocks();
    PAGODA_RETURN_IF_ERROR(
        parts_.runner->release_memory(empty ? ModelRunner::KvContent::drop : ModelRunner::KvContent::keep));
  }
  sleeping_.weights = sleeping_.kv_cache = std::max(level, sleep_level_) > 0;
  sleeping_.scheduling = true;
  sleep_level_ = std::max(level, sleep_level_);
  metrics_.on_sleep(sleep_level_);
  return ok_status();
}

Status EngineCore::wake_up(const WakeOrder& order) {
  if (!asleep()) return ok_status();
  if (order.weights && sleeping_.weights) {
    const Status loaded = parts_.runner->load_weights();
    if (!loaded.ok()) return loaded;
    sleeping_.weights = false;
  }
  if (order.kv_cache) sleeping_.kv_cache = false;  // its memory comes back as it is used
  if (sleeping_.weights || sleeping_.kv_cache) return ok_status();
  sleep_level_ = -1;
  metrics_.on_sleep(sleep_level_);
  return ok_status();
}

}  // namespace pagoda
