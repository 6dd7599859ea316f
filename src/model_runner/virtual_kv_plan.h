#pragma once
// From a page size to the geometry of a virtual KV cache: how many tokens a block has, which is what is
// mapped at a time, and where blocks and layers lie. A block holds whole groups of 16 tokens, in which the
// kernels work, and fills whole pages; what is left over at its end is padding.
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
  std::int64_t page_bytes = 0;  // a block in one tensor: one page, or several when a page is small
  std::int32_t num_tensors = 1;
  std::int64_t block_bytes() const { return page_bytes * num_tensors; }  // that a block takes, with padding
  double padding() const;                                                // share of a block
};

inline constexpr std::int64_t kMinKvPage = 4096, kMaxKvPage = std::int64_t{2} << 20;

// `layout`: of a page of the model's KV groups (kv_group_plan.h), which is all of its layers when there is
// one group; its block_size is what a block holds when page_bytes is 0. invalid_argument: a page size that is
// not a multiple of 4 KiB, or not in 4 KiB .. 2 MiB.
Result<VirtualKvPlan> plan_virtual_kv(const KvLayout& layout, std::int64_t page_bytes, KvTensors tensors);

// The bytes of a block of `plan` on all ranks of a group together, where rank r has kv_heads[r] KV heads.
std::int64_t virtual_block_bytes(const VirtualKvPlan& plan, std::span<const std::int32_t> kv_heads,
                                 std::int64_t granule = kPageGranule);
// The same cache on a rank whose own layout this is: as many tokens in a block, in pages of its own size, a
// multiple of `granule`.
struct RankKv {
  KvLayout layout;
  VirtualKvShape shape;
};
RankKv virtual_kv_of_rank(KvLayout layout, std::int32_t block_size, const VirtualKvShape& shape,
                          std::int64_t granule = kPageGranule);

// A sentence about padding, with a page size that has none; empty when there is none to
// speak of.
std::string describe_padding(const VirtualKvPlan& plan);

}  // namespace pagoda
