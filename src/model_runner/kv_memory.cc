#include "model_runner/kv_memory.h"

namespace pagoda {

std::vector<KvGroupMemory> kv_memory(const DecoderConfig& config, DType dtype, std::int32_t block_size) {
  const std::vector<LayerState> layers = layer_states(config);
  const KvGroupPlan plan = plan_kv_groups(layers, block_size, config.max_positions, /*windows=*/true);
  std::vector<KvLayout> layouts;
  for (const LayerState& layer : layers)
    layouts.push_back({.dtype = dtype,
                       .num_layers = 1,
                       .num_kv_heads = layer.num_kv_heads,
                       .head_size = layer.head_size,
                       .block_size = block_size});
  std::vector<KvGroupMemory> out;
  if (plan.groups.empty()) return out;
  const auto page_bytes = static_cast<std::int64_t>(page_layout(plan, layouts).block_bytes());
  for (const KvGroup& group : plan.groups) out.push_back({group, 0, page_bytes * group.pages_per_row});
  for (const KvPlace& place : plan.layers)
    if (place.own) ++out[static_cast<std::size_t>(place.group)].num_layers;
  return out;
}

}  // namespace pagoda
