#include "model_runner/kv_group_plan.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {
namespace {

std::int32_t pages_for(std::int32_t num_layers, std::int32_t page_layers) {
  return (num_layers + page_layers - 1) / page_layers;
}

}  // namespace

KvGroupPlan plan_kv_groups(std::span<const LayerState> layers, std::int32_t block_size,
                           std::int32_t max_context, bool windows) {
  KvGroupPlan plan;
  if (std::ranges::all_of(layers,
                          [](const LayerState& layer) { return layer.kind == LayerState::Kind::none; })) {
    plan.page_layers = 1;  // of what a step needs for a while, layer after layer
    return plan;
  }
  const auto window_of = [&](const LayerState& layer) {
    return windows && layer.kind == LayerState::Kind::window && layer.window < max_context ? layer.window : 0;
  };
  std::vector<std::int32_t> kinds;  // windows; 0 sees everything, and comes first
  for (const LayerState& layer : layers) kinds.push_back(window_of(layer));
  std::ranges::sort(kinds);
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  std::vector<std::int32_t> sizes(kinds.size(), 0);  // layers of each group
  for (const LayerState& layer : layers) {
    const auto group = std::ranges::find(kinds, window_of(layer)) - kinds.begin();
    plan.layers.push_back({.group = static_cast<std::int32_t>(group),
                           .page = 0,
                           .layer = sizes[static_cast<std::size_t>(group)]++});
  }
  // All layers are alike in bytes (kv_heads() sees to that), so numbers of layers tell all.
  const std::int32_t most = sizes.empty() ? 1 : *std::ranges::max_element(sizes);
  plan.padding = 2;
  for (std::int32_t page_layers = most; page_layers >= 1; --page_layers) {
    std::int64_t pages = 0;
    for (const std::int32_t size : sizes) pages += pages_for(size, page_layers);
    const double padding =
        sizes.empty() ? 0
                      : 1.0 - static_cast<double>(layers.size()) / static_cast<double>(pages * page_layers);
    if (padding >= plan.padding) continue;
    plan.padding = padding;
    plan.page_layers = page_layers;
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    plan.groups.push_back({.kind = kinds[i] > 0 ? KvKind::window : KvKind::full,
                           .window = kinds[i],
                           .tokens_per_row = block_size,
                           .pages_per_row = pages_for(sizes[i], plan.page_layers)});
  }
  for (KvPlace& place : plan.layers) {
    place.page = place.layer / plan.page_layers;
    place.layer %= plan.page_layers;
  }
  return plan;
}

KvLayout page_layout(const KvGroupPlan& plan, KvLayout block) {
  block.num_layers = plan.page_layers;
  return block;
}

std::string describe_groups(const KvGroupPlan& plan) {
  std::string out;
  if (plan.groups.size() < 2) return out;
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const KvGroup& group = plan.groups[i];
    const auto layers = std::ranges::count(plan.layers, static_cast<std::int32_t>(i), &KvPlace::group);
    if (i > 0) out += ", ";
    out += concat(
        layers, " layers see ",
        group.kind == KvKind::full ? std::string("everything") : concat("the last ", group.window, " tokens"),
        " (", group.pages_per_row, " pages a row)");
  }
  return out;
}

}  // namespace pagoda
