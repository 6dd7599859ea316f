#pragma once
// PagedInspection: KvInspection on paged memory.
// Threads: none; owned by the engine thread.
#include <cstddef>
#include <string_view>
#include <vector>

#include "kv_cache/kv_inspection.h"
#include "kv_cache/paged_parts.h"

namespace pagoda {

class PagedInspection final : public KvInspection {
 public:
  explicit PagedInspection(const PagedParts& parts) : parts_(parts) {}  // borrows `parts`

  std::string_view name() const override { return "paged"; }
  KvUsage usage() const override;
  PrefixCacheStats prefix_cache_stats() const override { return parts_.stats; }
  KvTable pages_of(SequenceId id, std::size_t group) const override;
  std::int32_t ref_count(BlockId block) const override { return parts_.pool.ref_count(block); }
  void append_cached(std::vector<BlockId>& out) const override { parts_.pool.append_cached(out); }
  void check_invariants() const override;

 private:
  const PagedParts& parts_;
};

}  // namespace pagoda
