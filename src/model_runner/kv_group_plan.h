#pragma once
// KvGroupPlan: how a model's layers are put into KV groups, and their K and V into equal pages of one pool.
// All layers of one kind (those that see everything, those with a window of the same length) are a group. A
// page holds the same number of layers whatever the group, so that any page serves any group; one layer's K
// and V of a row lie in one page. The same on every rank: only the bytes of a page differ. Not who owns which
// page: that is kv_cache/. Errors: none. Threads: plain data.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/paged_attention.h"
#include "models/decoder_config.h"
#include "request/kv_groups.h"

namespace pagoda {

// Where a layer of the model finds its K and V in a row.
struct KvPlace {
  std::int32_t group = 0, page = 0;  // page of the row
  std::int32_t layer = 0;            // of the page
};

struct KvGroupPlan {
  std::vector<KvGroup> groups;   // what sees everything comes first; none: nothing is kept (encoders)
  std::vector<KvPlace> layers;   // by layer of the model; empty where nothing is kept
  std::int32_t page_layers = 0;  // that a page has room for
  double padding = 0;            // share of the pages of a row of each group
};

// The page size is searched: least padding, then largest. Layers whose window is `max_context` tokens or more
// see everything. `windows` false: every layer is in one group, and what is behind a window is kept.
KvGroupPlan plan_kv_groups(std::span<const LayerState> layers, std::int32_t block_size,
                           std::int32_t max_context, bool windows);

// The layout of a page, of a model whose blocks of all layers this is.
KvLayout page_layout(const KvGroupPlan& plan, KvLayout block);

// "3 layers see everything (1 page a row), 15 the last 512 tokens (5)". Empty for one group.
std::string describe_groups(const KvGroupPlan& plan);

}  // namespace pagoda
