#pragma once
// Derives the geometry of a virtual KV cache from a page size: the tokens per block, which is the unit of
// mapping, and the positions of blocks and layers. A block holds a multiple of 16 tokens, the kernels' unit,
// and fills whole pages; the rest of its last page is padding.
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "model_runner/kv_storage.h"

namespace pagoda {

enum class KvTensors {
  per_slot,   // all layers of a slot in one tensor ("tensor slicing"): a page holds few tokens of every layer
              // that it has room for
  per_layer,  // a tensor for each layer of a page: pages hold many tokens of one layer, and each growth maps
              // one page in every tensor
};

struct VirtualKvPlan {
  KvLayout layout;              // block_size, block_stride; layer_stride once the number of blocks is known
  std::int64_t page_bytes = 0;  // one block in one tensor: one page, or several if pages are small
  std::int32_t num_tensors = 1;
  std::int64_t block_bytes() const { return page_bytes * num_tensors; }  // with padding
  double padding() const;                                                // share of a block
};

inline constexpr std::int64_t kMinKvPage = 4096, kMaxKvPage = std::int64_t{2} << 20;

// `layout`: a page of the model's KV groups (kv_group_plan.h), which has all layers if there is one group.
// Its block_size is the tokens per block if page_bytes is 0. invalid_argument: page_bytes is not a multiple
// of 4 KiB, or not within 4 KiB .. 2 MiB.
Result<VirtualKvPlan> plan_virtual_kv(const KvLayout& layout, std::int64_t page_bytes, KvTensors tensors);

// Returns the total bytes of a block of `plan` over all ranks, where rank r has kv_heads[r] KV heads.
std::int64_t virtual_block_bytes(const VirtualKvPlan& plan, std::span<const std::int32_t> kv_heads,
                                 std::int64_t granule = kPageGranule);
// Returns the same cache on a rank with its own layout: as many tokens per block, in pages of its own size, a
// multiple of `granule`.
struct RankKv {
  KvLayout layout;
  VirtualKvShape shape;
};
RankKv virtual_kv_of_rank(KvLayout layout, std::int32_t block_size, const VirtualKvShape& shape,
                          std::int64_t granule = kPageGranule);

// Returns a sentence about padding that names a page size without any; empty if padding is negligible.
std::string describe_padding(const VirtualKvPlan& plan);

}  // namespace pagoda
