#pragma once
// The geometry and the limits of --kv-manager virtual, from EngineFlags.
#include <cstdint>
#include <span>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "kv_cache/slot_map.h"
#include "model_runner/virtual_kv_plan.h"
#include "request/kv_groups.h"

namespace pagoda {

inline bool is_virtual(const EngineFlags& flags) { return flags.kv_manager == "virtual"; }

// Computes the tokens and bytes of a block. `layout`: a page of the model's KV groups with --block-size.
// Warns about padding. Without --kv-page-size a device's pages have the size of its granule.
Result<VirtualKvPlan> virtual_kv_plan(const EngineFlags& flags, const KvLayout& layout, std::int64_t granule);

// The manager's configuration except for the number of pages; no limit on mappings.
SlotMapConfig slot_map_config(const EngineFlags& flags, std::int32_t max_model_len,
                              std::span<const KvGroup> groups);

struct VirtualMemory {
  KvLayout layout;
  VirtualKvShape shape;
  SlotMapConfig slots;
  std::int32_t num_created = 0;         // 0: all pages
  std::int32_t most_resident_free = 0;  // limit on unused pages that keep their memory
};

// Plans the address space, mappings and pages of a cache of num_blocks for these groups. `mappings`: how many
// this process may still create. Errors name the flag or the system's limit.
Result<VirtualMemory> plan_virtual_memory(const EngineFlags& flags, const VirtualKvPlan& plan,
                                          std::span<const KvGroup> groups, std::int64_t num_blocks,
                                          std::int32_t max_model_len, std::int64_t mappings);

}  // namespace pagoda
