#include "model_runner/virtual_kv_plan.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "kernels/tiles.h"

namespace pagoda {
namespace {

constexpr std::int32_t kGroup = 16;  // tokens; kernels/kv_layout.h

// Size in bytes of `tokens` tokens in one tensor.
std::int64_t tensor_bytes(KvLayout layout, std::int32_t tokens, std::int32_t num_tensors) {
  layout.block_size = tokens;
  return static_cast<std::int64_t>(layout.block_bytes()) / num_tensors;
}

}  // namespace

double VirtualKvPlan::padding() const {
  return 1.0 - static_cast<double>(layout.block_bytes()) / static_cast<double>(block_bytes());
}

Result<VirtualKvPlan> plan_virtual_kv(const KvLayout& layout, std::int64_t page_bytes, KvTensors tensors) {
  VirtualKvPlan plan{.layout = layout};
  plan.num_tensors = tensors == KvTensors::per_layer ? layout.num_layers : 1;
  const std::int64_t group = tensor_bytes(layout, kGroup, plan.num_tensors);
  if (page_bytes == 0) {
    plan.page_bytes = round_up(tensor_bytes(layout, layout.block_size, plan.num_tensors), kPageGranule);
  } else if (page_bytes % kPageGranule != 0 || page_bytes < kMinKvPage || page_bytes > kMaxKvPage) {
    return invalid_argument(concat("--kv-page-size ", page_bytes, " is not a multiple of ", kPageGranule,
                                   " bytes from 4KiB to 2MiB"));
  } else if (page_bytes >= group) {
    plan.layout.block_size = static_cast<std::int32_t>(page_bytes / group) * kGroup;
    plan.page_bytes = page_bytes;
  } else {
    plan.layout.block_size = kGroup;
    plan.page_bytes = round_up(group, page_bytes);
  }
  plan.layout.block_stride = plan.page_bytes;
  return plan;
}

RankKv virtual_kv_of_rank(KvLayout layout, std::int32_t block_size, const VirtualKvShape& shape,
                          std::int64_t granule) {
  RankKv rank{.layout = layout, .shape = shape};
  rank.layout.block_size = block_size;
  rank.shape.page_bytes = round_up(tensor_bytes(layout, block_size, shape.num_tensors), granule);
  rank.layout.block_stride = rank.shape.page_bytes;
  rank.layout.layer_stride =
      shape.num_tensors > 1 ? rank.shape.page_bytes * shape.num_slots * shape.blocks_per_slot : 0;
  return rank;
}

std::int64_t virtual_block_bytes(const VirtualKvPlan& plan, std::span<const std::int32_t> kv_heads,
                                 std::int64_t granule) {
  std::int64_t bytes = plan.block_bytes();  // on rank 0
  for (std::size_t rank = 1; rank < kv_heads.size(); ++rank) {
    KvLayout layout = plan.layout;
    layout.num_kv_heads = kv_heads[rank];
    bytes += round_up(tensor_bytes(layout, layout.block_size, plan.num_tensors), granule) * plan.num_tensors;
  }
  return bytes;
}

std::string describe_padding(const VirtualKvPlan& plan) {
  if (plan.padding() < 0.01) return {};
  const std::int64_t exact = std::lcm(tensor_bytes(plan.layout, kGroup, plan.num_tensors), kPageGranule);
  const std::int64_t better = round_up(plan.page_bytes, exact);
  return concat("a block of ", plan.layout.block_size, " tokens in KV pages of ", plan.page_bytes,
                " bytes: ", fixed(100 * plan.padding(), 1), " % of them is padding; ",
                better <= kMaxKvPage ? concat("--kv-page-size ", better, " has none")
                                     : concat("only multiples of ", exact, " have none"));
}

}  // namespace pagoda
