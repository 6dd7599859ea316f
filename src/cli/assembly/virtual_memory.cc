#include "cli/assembly/virtual_memory.h"

#include <algorithm>
#include <limits>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "kv_cache/kv_geometry.h"

namespace pagoda {
namespace {

constexpr std::int32_t kEagerBlocks = 1;
constexpr std::int64_t kMappingsForOthers = 4096;                  // libraries, stacks, malloc
constexpr std::int64_t kMaxResidentFree = std::int64_t{48} << 20;  // bytes; sometimes up to a quarter more
// Limit on the address space for slots, unless --kv-slots is given.
constexpr std::int64_t kMaxAddressSpace = std::int64_t{1} << 45;

}  // namespace

Result<VirtualKvPlan> virtual_kv_plan(const EngineFlags& flags, const KvLayout& layout,
                                      std::int64_t granule) {
  if (flags.kv_page_size % granule != 0)
    return invalid_argument(concat("--kv-page-size ", flags.kv_page_size, ": --device ", flags.device,
                                   " maps multiples of ", granule, " bytes"));
  const std::int64_t page = flags.kv_page_size == 0 && uses_device(flags) ? granule : flags.kv_page_size;
  PAGODA_ASSIGN_OR_RETURN(
      auto plan,
      plan_virtual_kv(layout, page, flags.kv_slicing ? KvTensors::per_slot : KvTensors::per_layer));
  if (const std::string note = describe_padding(plan); !note.empty()) log_warning("start", note);
  return plan;
}

SlotMapConfig slot_map_config(const EngineFlags& flags, std::int32_t max_model_len,
                              std::span<const KvGroup> groups) {
  SlotMapConfig config;
  for (const KvGroup& group : token_groups(groups))
    config.blocks_per_slot += static_cast<std::int32_t>(group.rows_for(max_model_len)) * group.pages_per_row;
  // Idle slots stay mapped for future requests, so there are more slots than running sequences.
  config.num_slots = flags.kv_slots > 0 ? flags.kv_slots : std::min(flags.max_num_seqs, 1 << 20) * 2;
  config.deferred_reclaim = flags.kv_deferred_reclaim;
  config.map_ahead = flags.kv_map_ahead;
  config.num_eager_blocks = flags.kv_eager ? kEagerBlocks : 0;
  return config;
}

Result<VirtualMemory> plan_virtual_memory(const EngineFlags& flags, const VirtualKvPlan& plan,
                                          std::span<const KvGroup> groups, std::int64_t num_blocks,
                                          std::int32_t max_model_len, std::int64_t mappings) {
  VirtualMemory out;
  out.layout = plan.layout;
  out.slots = slot_map_config(flags, max_model_len, groups);
  if (out.slots.num_slots < flags.max_num_seqs) {
    return invalid_argument(
        concat("--kv-slots ", out.slots.num_slots, " is less than --max-num-seqs ", flags.max_num_seqs));
  }
  // States need no address space, but an arena cannot be empty.
  const std::int32_t blocks_per_slot = std::max(1, out.slots.blocks_per_slot);
  if (flags.kv_slots == 0 && out.slots.num_slots > kMaxAddressSpace / (blocks_per_slot * plan.block_bytes()))
    out.slots.num_slots = flags.max_num_seqs;
  if (out.slots.num_slots > std::numeric_limits<std::int32_t>::max() / blocks_per_slot) {
    return invalid_argument(
        concat("--kv-manager virtual: ", out.slots.num_slots, " slots of ", blocks_per_slot,
               " blocks are more than can be numbered: lower --kv-slots or --max-model-len, "
               "or raise --kv-page-size"));
  }
  if (!uses_device(flags))  // the GPU driver has no such limit
    out.slots.max_regions = (mappings - kMappingsForOthers) / plan.num_tensors;
  // The maximum pages of a single sequence: windows free the rows that they leave.
  const std::int64_t chunk = flags.enable_chunked_prefill ? 0 : max_model_len;
  const std::int64_t pages = pages_for(groups, max_model_len, 1, 0, chunk);
  const std::int64_t mapped = pages_for(token_groups(groups), max_model_len, 1, 0, chunk);
  if (!uses_device(flags) && out.slots.max_regions < 1 + 2 * mapped) {
    return invalid_argument(concat("--kv-manager virtual: one sequence of --max-model-len ", max_model_len,
                                   " may need ", (1 + 2 * mapped) * plan.num_tensors,
                                   " mappings, and vm.max_map_count leaves ",
                                   std::max<std::int64_t>(0, out.slots.max_regions) * plan.num_tensors,
                                   ": raise --kv-page-size or vm.max_map_count, or lower --max-model-len"));
  }
  out.shape = {.num_slots = out.slots.num_slots,
               .blocks_per_slot = blocks_per_slot,
               .page_bytes = plan.page_bytes,
               .num_tensors = plan.num_tensors,
               .num_created = -1};
  if (plan.num_tensors > 1)
    out.layout.layer_stride = plan.page_bytes * out.shape.num_slots * out.shape.blocks_per_slot;
  out.most_resident_free = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(kMaxResidentFree / plan.block_bytes(), 1, num_blocks));
  if (!flags.kv_precreate_pages) {
    // Enough for the longest sequence to run alone.
    out.num_created = static_cast<std::int32_t>(std::min<std::int64_t>(num_blocks, pages));
    out.shape.num_created = out.num_created;
  }
  return out;
}

}  // namespace pagoda
