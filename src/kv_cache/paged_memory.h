#pragma once
// PagedMemory: the common content of the paged and the virtual manager: the parts, and a class over them for
// each of the four interfaces. Threads: none; owned by the engine thread.
#include <cstdint>
#include <utility>

#include "kv_cache/paged_inspection.h"
#include "kv_cache/paged_parts.h"
#include "kv_cache/paged_sharing.h"
#include "kv_cache/paged_steps.h"
#include "kv_cache/paged_swap.h"

namespace pagoda {

struct PagedMemory {
  // All pages exist.
  explicit PagedMemory(PagedKvConfig config) : parts(std::move(config)) {}
  PagedMemory(PagedKvConfig config, std::int32_t num_created, PageSupply::MayCreate may_create)
      : parts(std::move(config), num_created, std::move(may_create)) {}

  PagedParts parts;
  PagedSteps steps{parts};
  PagedSharing sharing{parts};
  PagedSwap swap{parts};
  PagedInspection inspection{parts};
  KvTiering no_tiers;
  KvTiering& tiering() { return parts.tiers ? static_cast<KvTiering&>(*parts.tiers) : no_tiers; }
};

}  // namespace pagoda
