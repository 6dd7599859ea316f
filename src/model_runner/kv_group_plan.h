#pragma once
// KvGroupPlan: how a model's layers are put into KV groups, and their K and V into equal pages of one pool.
// All layers of one kind (those that see everything, those with a window of the same length) are a group.
// Pages are equal whatever the group, so that any page serves any group; one layer's K and V of a row lie in
// one page, behind those of the layers before it there. A layer that reads another's K and V has that one's
// place. Layers with states are a group, too: its one row of a sequence holds the pieces of all of them, each
// in one page. The same on every rank: only the bytes of a page differ. Not who owns which page: that is
// kv_cache/. Errors: none. Threads: plain data.
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

// The place of a layer's K and V in a row.
struct KvPlace {
  std::int32_t group = 0, page = 0;  // page of the row
  std::int32_t layer = 0;            // layer within the page
  bool own = true;                   // false: it is another layer's
};

// The place of a piece of a layer's state in the group's row.
struct StatePlace {
  std::int32_t page = 0;
  std::int64_t offset = 0, bytes = 0;
};

struct KvGroupPlan {
  std::vector<KvGroup> groups;  // full attention comes first; none: nothing is kept (encoders)
  std::vector<KvPlace> layers;  // by layer of the model; empty where nothing is kept
  // Pieces of all layers with states, one after the other; and for each layer of the model the number of
  // those before its own.
  std::vector<StatePlace> pieces;
  std::vector<std::int32_t> first_piece;
  std::int64_t state_page_bytes = 0;  // that pieces take of a page, at most
  std::int32_t page_layers = 0;       // layers of a page, at most
  bool uniform = true;                // all layers have heads alike
  double padding = 0;                 // share of the pages of a row of each group

  bool has_states() const { return !pieces.empty(); }
  // Index of the group of states.
  std::int32_t state_group() const { return static_cast<std::int32_t>(groups.size()) - 1; }
  // Layer i of the model is layer i of the one page of a row.
  bool plain() const {
    return uniform && groups.size() == 1 && groups.front().pages_per_row == 1 &&
           std::ranges::all_of(layers, &KvPlace::own);
  }
};

// The page size is searched: least padding, then largest; with states, of a sequence of 1,024 tokens, and
// less than 1 % counts as none. Layers whose window is `max_context` tokens or more see everything. `windows`
// false: all layers with keys and values are in one group, and what is behind a window is kept. `unit_bytes`
// is what one element of every token of a row takes at least: in these states are measured. With states,
// `layers` are of one of `num_ranks` equal parts, and KvGroup::state_bytes is of all.
KvGroupPlan plan_kv_groups(std::span<const LayerState> layers, std::int32_t block_size,
                           std::int32_t max_context, bool windows, std::int64_t unit_bytes = 0,
                           std::int32_t num_ranks = 1);

// The layout of a page. `layers`: that of each layer's K and V on this rank. Where they differ, that of one
// head as wide as all that a page has: its bytes are right for any number of tokens.
KvLayout page_layout(const KvGroupPlan& plan, std::span<const KvLayout> layers);

// The place of each layer's K and V in pages of this layout, for LayerKv.
struct LayerInPage {
  KvLayout layout;
  std::int32_t layer = 0;
};
std::vector<LayerInPage> layers_in_pages(const KvGroupPlan& plan, std::span<const KvLayout> layers,
                                         const KvLayout& page);

// The plan with as many tokens in a row as `page` has, the layout of a page of a virtual cache. The pieces of
// states are put into pages of its size. invalid_argument: one is larger than such a page.
Result<KvGroupPlan> in_blocks_of(KvGroupPlan plan, const KvLayout& page);

// "3 layers see everything (1 page a row), 15 the last 512 tokens (5)". Empty for one group.
std::string describe_groups(const KvGroupPlan& plan);

}  // namespace pagoda
