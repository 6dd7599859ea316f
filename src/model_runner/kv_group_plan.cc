#include "model_runner/kv_group_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "kernels/kv_layout.h"

namespace pagoda {
namespace {

constexpr std::int64_t kTokensBesideState = 1024;
constexpr double kNoPadding = 0.01;       // with states
constexpr std::int64_t kPieceAlign = 64;  // bytes

// Number of elements that a layer keeps per token.
std::int64_t size_of(const LayerState& layer) {
  return std::int64_t{layer.num_kv_heads} * layer.head_size * (layer.latent_size > 0 ? 1 : 2);
}

// True if the layer has keys and values of its own.
bool has_kv(const LayerState& layer) {
  return layer.of_layer < 0 && layer.kind != LayerState::Kind::state && layer.kind != LayerState::Kind::none;
}

std::int64_t piece_bytes(std::int64_t floats) {
  return (floats * static_cast<std::int64_t>(sizeof(float)) + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
}

// Sizes in bytes of the pieces of all layers' states.
std::vector<std::int64_t> state_pieces(std::span<const LayerState> layers) {
  std::vector<std::int64_t> pieces;
  for (const LayerState& layer : layers)
    for (const std::int64_t floats : layer.pieces) pieces.push_back(piece_bytes(floats));
  return pieces;
}

// Number of pages for layers of these sizes in order; each layer goes behind the previous ones if it fits.
// add() returns the layer's page and its index within the page.
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

// The same for pieces of states: each goes into the first page with enough space.
struct StatePacking {
  std::int64_t page_bytes;
  std::vector<std::int64_t> used = {};  // bytes used in each page

  StatePlace add(std::int64_t bytes) {
    auto page = std::ranges::find_if(used, [&](std::int64_t so_far) { return so_far + bytes <= page_bytes; });
    if (page == used.end()) page = used.insert(used.end(), 0);
    return {.page = static_cast<std::int32_t>(page - used.begin()),
            .offset = std::exchange(*page, *page + bytes),
            .bytes = bytes};
  }
};

std::int64_t state_pages(const std::vector<std::int64_t>& pieces, std::int64_t page_bytes) {
  StatePacking packing{.page_bytes = page_bytes};
  for (const std::int64_t bytes : pieces) packing.add(bytes);
  return std::ssize(packing.used);
}

}  // namespace

KvGroupPlan plan_kv_groups(std::span<const LayerState> layers, std::int32_t block_size,
                           std::int32_t max_context, bool windows, std::int64_t unit_bytes,
                           std::int32_t num_ranks) {
  KvGroupPlan plan;
  if (std::ranges::all_of(layers,
                          [](const LayerState& layer) { return layer.kind == LayerState::Kind::none; })) {
    plan.page_layers = 1;  // one layer's; the next layer uses it again
    return plan;
  }
  const std::vector<std::int64_t> pieces = state_pieces(layers);
  CHECK(pieces.empty() || unit_bytes > 0);
  plan.uniform = pieces.empty() && (layers.empty() || kv_heads(layers).has_value());
  const auto window_of = [&](const LayerState& layer) {
    return windows && layer.kind == LayerState::Kind::window && layer.window < max_context ? layer.window : 0;
  };
  std::vector<std::int32_t> kinds;  // window lengths; 0 is full attention and comes first
  for (const LayerState& layer : layers)
    if (has_kv(layer)) kinds.push_back(window_of(layer));
  std::ranges::sort(kinds);
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  const auto group_of = [&](const LayerState& layer) {
    return static_cast<std::size_t>(std::ranges::find(kinds, window_of(layer)) - kinds.begin());
  };
  std::vector<std::vector<std::int64_t>> sizes(kinds.size());  // sizes of the layers of each group
  std::int64_t total = 0, largest = 1;
  for (const LayerState& layer : layers) {
    if (!has_kv(layer)) continue;
    sizes[group_of(layer)].push_back(size_of(layer));
    total += size_of(layer);
    largest = std::max(largest, size_of(layer));
  }
  // States take a fixed number of bytes: one row per sequence, among many rows of the other groups.
  const auto units = [&](std::int64_t bytes) { return (bytes + unit_bytes - 1) / unit_bytes; };
  const std::int64_t rows = pieces.empty() ? 1 : (kTokensBesideState + block_size - 1) / block_size;
  total *= rows;
  for (const std::int64_t bytes : pieces) {
    total += units(bytes);
    largest = std::max(largest, units(bytes));
  }
  // Candidate pages hold any number of layers of one size, or a whole group.
  std::vector<std::int64_t> candidates = {largest};
  if (kinds.empty()) {  // only states
    std::int64_t whole = 0;
    for (const std::int64_t bytes : pieces) candidates.push_back(whole += units(bytes));
  }
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
    for (const std::vector<std::int64_t>& group : sizes) pages += rows * pages_of(group, candidate);
    pages += state_pages(pieces, candidate * unit_bytes);
    const double padding =
        pages == 0 ? 0 : 1.0 - static_cast<double>(total) / static_cast<double>(pages * candidate);
    if (!pieces.empty() && padding < kNoPadding && plan.padding < kNoPadding) continue;
    if (padding >= plan.padding) continue;
    plan.padding = padding;
    page_size = candidate;
  }
  std::vector<Packing> packing(kinds.size(), Packing{.page_size = page_size});
  StatePacking state{.page_bytes = page_size * unit_bytes};
  plan.page_layers = 1;
  for (const LayerState& layer : layers) {
    plan.first_piece.push_back(static_cast<std::int32_t>(plan.pieces.size()));
    for (const std::int64_t floats : layer.pieces) plan.pieces.push_back(state.add(piece_bytes(floats)));
    if (!has_kv(layer)) {  // shares another layer's, or has none
      plan.layers.push_back(layer.of_layer >= 0 ? plan.layers[static_cast<std::size_t>(layer.of_layer)]
                                                : KvPlace{});
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
  if (pieces.empty()) return plan;
  plan.state_page_bytes = *std::ranges::max_element(state.used);
  plan.groups.push_back(
      {.kind = KvKind::state,
       .tokens_per_row = block_size,
       .pages_per_row = static_cast<std::int32_t>(state.used.size()),
       .state_bytes = num_ranks * std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0})});
  return plan;
}

KvLayout page_layout(const KvGroupPlan& plan, std::span<const KvLayout> layers) {
  KvLayout page = layers.front();
  page.num_layers = plan.page_layers;
  if (plan.uniform) return page;
  page.num_layers = page.num_kv_heads = 1;
  std::int64_t widest = 0, used = 0;  // bytes per token
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const KvPlace& place = plan.layers[i];
    if (!place.own) continue;
    used = 0;  // bytes of this layer's page, up to and including this layer
    for (std::size_t other = 0; other <= i; ++other) {
      const KvPlace& before = plan.layers[other];
      if (before.own && before.group == place.group && before.page == place.page)
        used += KvAddress(layers[other]).token_bytes * layers[other].num_kv_heads;
    }
    widest = std::max(widest, used);
  }
  const KvAddress address(page);
  const std::int64_t of_states =
      plan.state_page_bytes > 0 ? (plan.state_page_bytes - 1) / (2 * page.block_size) + 1 : 0;
  widest = std::max(widest, of_states);
  page.head_size = static_cast<std::int32_t>((widest - address.scale_bytes - 1) / address.element + 1);
  return page;
}

std::vector<LayerInPage> layers_in_pages(const KvGroupPlan& plan, std::span<const KvLayout> layers,
                                         const KvLayout& page) {
  std::vector<LayerInPage> out;
  if (plan.layers.empty()) return out;  // the model keeps nothing
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
    // Expressed as layer 1 of a layout whose layer stride is the offset.
    layout.num_layers = 2;
    layout.layer_stride = offset;
    out.push_back({layout, offset > 0 ? 1 : 0});
  }
  return out;
}

Result<KvGroupPlan> in_blocks_of(KvGroupPlan plan, const KvLayout& page) {
  for (KvGroup& group : plan.groups) group.tokens_per_row = page.block_size;
  if (!plan.has_states()) return plan;
  // Copies and swaps skip the padding of a page.
  const auto page_bytes = static_cast<std::int64_t>(page.block_bytes());
  const std::int64_t largest = std::ranges::max(plan.pieces, {}, &StatePlace::bytes).bytes;
  if (largest > page_bytes) {
    return invalid_argument(concat("--kv-page-size: a page holds ", page_bytes, " bytes of ", page.block_size,
                                   " tokens, and a layer's state needs ", largest, " in one page"));
  }
  StatePacking state{.page_bytes = page_bytes};
  for (StatePlace& piece : plan.pieces) piece = state.add(piece.bytes);
  plan.state_page_bytes = *std::ranges::max_element(state.used);
  plan.groups.back().pages_per_row = static_cast<std::int32_t>(state.used.size());
  return plan;
}

std::string describe_groups(const KvGroupPlan& plan) {
  std::string out;
  if (plan.groups.size() < 2) return out;
  const auto pages = [](std::int64_t count) { return concat(count, count == 1 ? " page" : " pages"); };
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const KvGroup& group = plan.groups[i];
    if (i > 0) out += ", ";
    if (group.is_state()) {
      out += concat("states of ", group.state_bytes, " bytes a sequence (", pages(group.pages_per_row), ")");
      continue;
    }
    const auto layers = std::ranges::count_if(plan.layers, [&](const KvPlace& place) {
      return place.own && place.group == static_cast<std::int32_t>(i);
    });
    out += concat(
        layers, layers == 1 ? " layer sees " : " layers see ",
        group.kind == KvKind::full ? std::string("everything") : concat("the last ", group.window, " tokens"),
        " (", pages(group.pages_per_row), " a row)");
  }
  return out;
}

}  // namespace pagoda
