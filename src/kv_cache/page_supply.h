#pragma once
// PageSupply: the pages of a pool, some of which may not exist yet. Those count as free. They are created in
// batches before they are first used, which whoever owns the memory may refuse.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <functional>

#include "kv_cache/block_pool.h"

namespace pagoda {

class PageSupply {
 public:
  // Grants or refuses so many more pages.
  using MayCreate = std::function<bool(std::int64_t count)>;

  // Borrows the pool, which has the pages that exist and may come to have `num_pages`. `may_create` is not
  // asked if all of them exist.
  PageSupply(BlockPool& pool, std::int64_t num_pages, MayCreate may_create);

  std::int64_t num_pages() const { return num_pages_; }
  std::int64_t num_free() const { return pool_.num_free() + num_uncreated(); }
  // Whether the pool can hand out so many pages now. Creates those that lack, for fresh pages are taken
  // before cached ones are evicted. After a refusal it evicts instead of asking, for a while.
  [[nodiscard]] bool make_available(std::int64_t num_pages);

 private:
  std::int64_t num_uncreated() const { return num_pages_ - pool_.num_blocks(); }

  BlockPool& pool_;
  const std::int64_t num_pages_;
  const MayCreate may_create_;
  std::int32_t num_skipped_asks_ = 0;  // to come, after a refusal
};

}  // namespace pagoda
