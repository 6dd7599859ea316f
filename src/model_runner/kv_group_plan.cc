#include "model_runner/kv_group_plan.h"

#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "kernels/kv_layout.h"

namespace pagoda {
namespace {

// What a layer keeps of a token, in elements.
std::int64_t size_of(const LayerState& layer) {
  return std::int64_t{layer.num_kv_heads} * layer.head_size * (layer.latent_size > 0 ? 1 : 2);
}

// Pages that layers of these sizes take in this order, each beside those before it where there is room. What
// is told of each: its page, and its number there.
struct Packing {
  std::int32_t pages = 0, layer = 0;
  std::int64_t used = 0, page_size;

  void add(std::int64_t size) {
    if (pages == 0 || used + size > page_size) {
      ++pages;
      used = layer = 0;
    } else {
      ++layer;
    }
    used += size;
  }
};

std::int64_t pages_of(const std::vector<std::int64_t>& sizes, std::int64_t page_size) {
  Packing packing{.page_size = page_size};
  for (const std::int64_t size : sizes) packing.add(size);
  return packing.pages;
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
  plan.uniform = layers.empty() || kv_heads(layers).has_value();
  const auto window_of = [&](const LayerState& layer) {
    return windows && layer.kind == LayerState::Kind::window && layer.window < max_context ? layer.window : 0;
  };
  std::vector<std::int32_t> kinds;  // windows; 0 sees everything, and comes first
  for (const LayerState& layer : layers)
    if (layer.of_layer < 0) kinds.push_back(window_of(layer));
  std::ranges::sort(kinds);
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  const auto group_of = [&](const LayerState& layer) {
    return static_cast<std::size_t>(std::ranges::find(kinds, window_of(layer)) - kinds.begin());
  };
  std::vector<std::vector<std::int64_t>> sizes(kinds.size());  // of each group's layers
  std::int64_t total = 0, largest = 1;
  for (const LayerState& layer : layers) {
    if (layer.of_layer >= 0) continue;
    sizes[group_of(layer)].push_back(size_of(layer));
    total += size_of(layer);
    largest = std::max(largest, size_of(layer));
  }
  // Pages of any number of layers of one size, or of a whole group.
  std::vector<std::int64_t> candidates = {largest};
  for (const std::vector<std::int64_t>& group : sizes) {
    std::int64_t whole = 0;
    for (const std::int64_t size : group) {
      whole += size;
      const std::int64_t most = std::ranges::count(group, size);
      for (std::int64_t count = 1; count <= most; ++count) candidates.push_back(count * size);
    }
    candidates.push_back(whole);
  }
  std::ranges::sort(candidates, std::greater());
  candidates.erase(std::ranges::unique(candidates).begin(), candidates.end());
  std::int64_t page_size = largest;
  plan.padding = 2;
  for (const std::int64_t candidate : candidates) {
    if (candidate < largest) break;
    std::int64_t pages = 0;
    for (const std::vector<std::int64_t>& group : sizes) pages += pages_of(group, candidate);
    const double padding =
        sizes.empty() ? 0 : 1.0 - static_cast<double>(total) / static_cast<double>(pages * candidate);
    if (padding >= plan.padding) continue;
    plan.padding = padding;
    page_size = candidate;
  }
  std::vector<Packing> packing(kinds.size(), Packing{.page_size = page_size});
  plan.page_layers = 1;
  for (const LayerState& layer : layers) {
    if (layer.of_layer >= 0) {
      plan.layers.push_back(plan.layers[static_cast<std::size_t>(layer.of_layer)]);
      plan.layers.back().own = false;
      continue;
    }
    const std::size_t group = group_of(layer);
    Packing& page = packing[group];
    page.add(size_of(layer));
    plan.layers.push_back(
        {.group = static_cast<std::int32_t>(group), .page = page.pages - 1, .layer = page.layer});
    plan.page_layers = std::max(plan.page_layers, page.layer + 1);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    plan.groups.push_back({.kind = kinds[i] > 0 ? KvKind::window : KvKind::full,
                           .window = kinds[i],
                           .tokens_per_row = block_size,
                           .pages_per_row = packing[i].pages});
  }
  return plan;
}

KvLayout page_layout(const KvGroupPlan& plan, std::span<const KvLayout> layers) {
  KvLayout page = layers.front();
  page.num_layers = plan.page_layers;
  if (plan.uniform) return page;
  page.num_layers = page.num_kv_heads = 1;
  std::int64_t widest = 0, used = 0;  // bytes of a token
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const KvPlace& place = plan.layers[i];
    if (!place.own) continue;
    used = 0;  // of this layer's page, up to this layer
    for (std::size_t other = 0; other <= i; ++other) {
      const KvPlace& before = plan.layers[other];
      if (before.own && before.group == place.group && before.page == place.page)
        used += KvAddress(layers[other]).token_bytes * layers[other].num_kv_heads;
    }
    widest = std::max(widest, used);
  }
  const KvAddress address(page);
  page.head_size = static_cast<std::int32_t>((widest - address.scale_bytes) / address.element);
  return page;
}

std::vector<LayerInPage> layers_in_pages(const KvGroupPlan& plan, std::span<const KvLayout> layers,
                                         const KvLayout& page) {
  std::vector<LayerInPage> out;
  if (plan.layers.empty()) return out;  // nothing is kept
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const KvPlace& place = plan.layers[i];
    if (plan.uniform) {
      out.push_back({page, place.layer});
      continue;
    }
    KvLayout layout = layers[i];
    layout.block_size = page.block_size;
    layout.block_stride =
        page.block_stride > 0 ? page.block_stride : static_cast<std::int64_t>(page.block_bytes());
    std::int64_t offset = 0;
    for (std::size_t other = 0; other < layers.size(); ++other) {
      const KvPlace& before = plan.layers[other];
      if (!before.own || before.group != place.group || before.page != place.page ||
          before.layer >= place.layer)
        continue;
      KvLayout one = layers[other];
      one.block_size = page.block_size;
      offset += static_cast<std::int64_t>(one.layer_bytes());
    }
    // As layer 1 of layers so far apart.
    layout.num_layers = 2;
    layout.layer_stride = offset;
    out.push_back({layout, offset > 0 ? 1 : 0});
  }
  return out;
}

std::string describe_groups(const KvGroupPlan& plan) {
  std::string out;
  if (plan.groups.size() < 2) return out;
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const KvGroup& group = plan.groups[i];
    const auto layers = std::ranges::count_if(plan.layers, [&](const KvPlace& place) {
      return place.own && place.group == static_cast<std::int32_t>(i);
    });
    if (i > 0) out += ", ";
    out += concat(
        layers, " layers see ",
        group.kind == KvKind::full ? std::string("everything") : concat("the last ", group.window, " tokens"),
        " (", group.pages_per_row, " pages a row)");
  }
  return out;
}

}  // namespace pagoda
