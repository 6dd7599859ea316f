#pragma once
// PageSupply: the pages of a pool, some of which may not exist yet but count as free. They are created in
// batches before their first use; the owner of the memory may refuse to create them.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <functional>

#include "kv_cache/block_pool.h"

namespace pagoda {

class PageSupply {
 public:
  // Grants or refuses `count` more pages.
  using MayCreate = std::function<bool(std::int64_t count)>;

  // Borrows the pool, which has the existing pages and may grow to `num_pages`. `may_create` is not called if
  // all pages exist.
  PageSupply(BlockPool& pool, std::int64_t num_pages, MayCreate may_create);

  std::int64_t num_pages() const { return num_pages_; }
  std::int64_t num_free() const { return pool_.num_free() + num_uncreated(); }
  // True if the pool can hand out `num_pages` pages now. Creates missing pages, since fresh pages are
  // preferred over evicting cached ones. After a refusal it evicts for a while instead of asking again.
  [[nodiscard]] bool make_available(std::int64_t num_pages);

 private:
  std::int64_t num_uncreated() const { return num_pages_ - pool_.num_blocks(); }

  BlockPool& pool_;
  const std::int64_t num_pages_;
  const MayCreate may_create_;
  std::int32_t num_skipped_asks_ = 0;  // calls still to be skipped after a refusal
};

}  // namespace pagoda
