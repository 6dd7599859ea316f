#pragma once
// PagedSharing: KvSharing on paged memory.
// Threads: owned by the engine thread; num_pinned_blocks() is safe from any.
#include <atomic>
#include <cstdint>
#include <span>

#include "kv_cache/kv_sharing.h"
#include "kv_cache/paged_parts.h"

namespace pagoda {

class PagedSharing final : public KvSharing {
 public:
  explicit PagedSharing(PagedParts& parts) : parts_(parts) {}  // borrows `parts`

  bool caches_prefixes() const override { return parts_.caches_prefixes(); }
  std::int32_t shareable(SequenceId id, std::int32_t num_tokens) const override;
  void keep_shareable(SequenceId id, std::int32_t num_tokens) override;
  void fork(SequenceId parent, SequenceId child) override;
  std::int32_t fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) override;
  std::int64_t blocks_owned_by(std::span<const SequenceId> ids) const override;
  [[nodiscard]] bool pin_prefix(SequenceId parent, SequenceId holder,
                                std::span<const TokenId> tokens) override;
  void unpin_prefix(SequenceId holder) override;
  std::int64_t num_pinned_blocks() const override { return num_pinned_.load(std::memory_order_acquire); }
  TierErase erase_from_cache(const CacheOwner& owner) override;
  void clear_prefix_cache() override;
  void set_cache_observer(CacheObserver* observer) override { parts_.cache.set_observer(observer); }

 private:
  void count_pinned();

  PagedParts& parts_;
  std::atomic<std::int64_t> num_pinned_{0};
};

}  // namespace pagoda
