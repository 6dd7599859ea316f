#pragma once
// KvGroupPlan: how a model's layers are divided into KV groups, and how their K and V lie in the equal pages
// of one pool. All layers of one kind (full attention, or windows of the same length) form a group. Pages
// have the same size in all groups, so any page can serve any group. One layer's K and V of a row lie in one
// page, after those of the layers that precede it in the page. A layer that reads another layer's K and V
// shares its place. Layers with states form a group, too: its single row per sequence holds the pieces of all
// those layers, each piece within one page. The plan is the same on every rank, except for the bytes of a
// page. kv_cache/ decides who owns which page.
// Errors: none. Threads: plain data.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/paged_attention.h"
#include "models/decoder_config.h"
#include "request/kv_groups.h"

namespace pagoda {

// The location of a layer's K and V in a row.
struct KvPlace {
  std::int32_t group = 0, page = 0;  // page: index within the row
  std::int32_t layer = 0;            // index within the page
  bool own = true;                   // false: shared with the other layer that owns it
};

// The location of a piece of a layer's state in the group's row.
struct StatePlace {
  std::int32_t page = 0;
  std::int64_t offset = 0, bytes = 0;
};

struct KvGroupPlan {
  std::vector<KvGroup> groups;  // full attention first; empty if nothing is kept (encoders)
  std::vector<KvPlace> layers;  // by layer of the model; empty if nothing is kept
  // The pieces of all layers with states in layer order, and for each layer of the model the index of its
  // first piece.
  std::vector<StatePlace> pieces;
  std::vector<std::int32_t> first_piece;
  std::int64_t state_page_bytes = 0;  // maximum bytes that pieces take in a page
  std::int32_t page_layers = 0;       // maximum number of layers in a page
  bool uniform = true;                // all layers have the same number and size of heads
  double padding = 0;                 // share of pages that is padding, over one row of each group

  bool has_states() const { return !pieces.empty(); }
  // Index of the group of states.
  std::int32_t state_group() const { return static_cast<std::int32_t>(groups.size()) - 1; }
  // True if layer i of the model is layer i of a row's only page.
  bool plain() const {
    return uniform && groups.size() == 1 && groups.front().pages_per_row == 1 &&
           std::ranges::all_of(layers, &KvPlace::own);
  }
};

// Searches for the page size with the least padding, then the largest. With states, padding is that of a
// sequence of 1,024 tokens, and less than 1 % counts as none. Layers whose window is at least `max_context`
// count as full attention. If `windows` is false, all layers with keys and values are in one group, and K and
// V that a window has passed are kept. `unit_bytes`: the minimum size of one element of every token of a row;
// states are measured in it. With states, `layers` describe one of `num_ranks` equal parts, while
// KvGroup::state_bytes is the total.
KvGroupPlan plan_kv_groups(std::span<const LayerState> layers, std::int32_t block_size,
                           std::int32_t max_context, bool windows, std::int64_t unit_bytes = 0,
                           std::int32_t num_ranks = 1);

// Returns the layout of a page. `layers`: the layout of each layer's K and V on this rank. If they differ,
// the result has one head as wide as all heads of a page; its byte count is right for any number of tokens.
KvLayout page_layout(const KvGroupPlan& plan, std::span<const KvLayout> layers);

// The place of a layer's K and V in pages of a given layout, for LayerKv.
struct LayerInPage {
  KvLayout layout;
  std::int32_t layer = 0;
};
std::vector<LayerInPage> layers_in_pages(const KvGroupPlan& plan, std::span<const KvLayout> layers,
                                         const KvLayout& page);

// Returns the plan with as many tokens per row as `page`, a page's layout in a virtual cache, has. Pieces of
// states are placed in pages of that size. invalid_argument: a piece is larger than such a page.
Result<KvGroupPlan> in_blocks_of(KvGroupPlan plan, const KvLayout& page);

// E.g. "3 layers see everything (1 page a row), 15 the last 512 tokens (5)". Empty if there is one group.
std::string describe_groups(const KvGroupPlan& plan);

}  // namespace pagoda
