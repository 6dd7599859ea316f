#include "model_runner/kv_memory.h"

#include <algorithm>

#include "tensor/dtype.h"

namespace pagoda {

std::vector<KvGroupMemory> kv_memory(const DecoderConfig& config, DType dtype, std::int32_t block_size) {
  const std::vector<LayerState> layers = layer_states(config);
  std::vector<KvGroupMemory> out;
  const bool latent =
      std::ranges::any_of(layers, [](const LayerState& layer) { return layer.latent_size > 0; });
  if (latent && dtype == DType::i8) return out;  // no kernel supports it
  const KvGroupPlan plan = plan_kv_groups(layers, block_size, config.max_positions, /*windows=*/true,
                                          block_size * dtype_info(dtype).block_bytes);
  std::vector<KvLayout> layouts;
  for (const LayerState& layer : layers)
    layouts.push_back({.dtype = dtype,
                       .num_layers = 1,
                       .num_kv_heads = layer.num_kv_heads,
                       .head_size = layer.head_size,
                       .block_size = block_size,
                       .latent_size = layer.latent_size});
  if (plan.groups.empty()) return out;
  const auto page_bytes = static_cast<std::int64_t>(page_layout(plan, layouts).block_bytes());
  for (const KvGroup& group : plan.groups) out.push_back({group, 0, page_bytes * group.pages_per_row});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (plan.layers[i].own) ++out[static_cast<std::size_t>(plan.layers[i].group)].num_layers;
    if (!layers[i].pieces.empty()) ++out.back().num_layers;  // states are the last group
  }
  return out;
}

}  // namespace pagoda
