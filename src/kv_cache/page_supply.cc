#include "kv_cache/page_supply.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

constexpr std::int64_t kPagesPerGrant = 64;
constexpr std::int32_t kPauseAfterRefusal = 64;  // calls

}  // namespace

PageSupply::PageSupply(BlockPool& pool, std::int64_t num_pages, MayCreate may_create)
    : pool_(pool), num_pages_(num_pages), may_create_(std::move(may_create)) {
  CHECK(num_uncreated() >= 0);
  CHECK(num_uncreated() == 0 || may_create_);
}

bool PageSupply::make_available(std::int64_t num_pages) {
  std::int64_t lacking = num_pages - (pool_.num_free() - pool_.num_cached());
  if (lacking > 0 && num_uncreated() > 0) {
    lacking = std::min(lacking, num_uncreated());
    const bool must = num_pages > pool_.num_free();
    if (must || num_skipped_asks_ == 0) {
      num_skipped_asks_ = kPauseAfterRefusal;
      for (const std::int64_t count : {std::min(lacking + kPagesPerGrant, num_uncreated()), lacking}) {
        if (!may_create_(count)) continue;
        pool_.add_blocks(static_cast<std::int32_t>(count));
        num_skipped_asks_ = 0;
        break;
      }
    } else {
      --num_skipped_asks_;
    }
  }
  return num_pages <= pool_.num_free();
}

}  // namespace pagoda
