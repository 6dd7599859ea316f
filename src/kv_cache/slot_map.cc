#include "kv_cache/slot_map.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {
namespace {

BlockId after(BlockId page, std::int32_t count = 1) { return BlockId{index(page) + count}; }

}  // namespace

SlotMap::SlotMap(const SlotMapConfig& config, BlockPool& pool) : config_(config), pool_(pool) {
  CHECK(config_.num_slots > 0 && config_.blocks_per_slot > 0 && config_.num_eager_blocks >= 0);
  shown_.resize(place(config_.num_slots, 0), kNoPage);
  num_shown_.resize(static_cast<std::size_t>(config_.num_slots), 0);
  num_owned_.resize(static_cast<std::size_t>(config_.num_slots), 0);
  for (std::int32_t slot = 0; slot < config_.num_slots; ++slot) idle_.push_back(slot);
}

std::int64_t SlotMap::border(std::int32_t slot, std::int32_t at) const {
  const BlockId left = at > 0 ? shown(slot, at - 1) : kNoPage;
  const BlockId right = at < config_.blocks_per_slot ? shown(slot, at) : kNoPage;
  if (left == kNoPage) return right == kNoPage ? 0 : 1;
  return right == after(left) ? 0 : 1;
}

// What was to be mapped beside the step has to come before it after all.
void SlotMap::bring_forward(std::int32_t slot) {
  if (!ahead_.empty() && std::ranges::any_of(ahead_, [&](const PageMapping& mapping) {
        return index(mapping.block) / config_.blocks_per_slot == slot;
      })) {
    now_.insert(now_.end(), ahead_.begin(), ahead_.end());
    ahead_.clear();
  }
}

void SlotMap::set(std::int32_t slot, std::int32_t at, BlockId page) {
  bring_forward(slot);  // it is changed again
  if (shown(slot, at) != kNoPage) pool_.let_go(shown(slot, at));
  num_borders_ -= border(slot, at) + border(slot, at + 1);
  shown_[place(slot, at)] = page;
  num_borders_ += border(slot, at) + border(slot, at + 1);
  std::int32_t& end = num_shown_[static_cast<std::size_t>(slot)];
  if (page != kNoPage) end = std::max(end, at + 1);
  while (end > 0 && shown(slot, end - 1) == kNoPage) --end;
}

void SlotMap::record(std::vector<PageMapping>& list, std::int32_t slot, std::int32_t at, BlockId page) {
  const BlockId block = block_id(slot, at);
  if (!list.empty()) {
    PageMapping& last = list.back();
    const bool follows =
        page == kNoPage ? last.page == kNoPage : last.page != kNoPage && after(last.page, last.count) == page;
    if (follows && after(last.block, last.count) == block) {
      ++last.count;
      return;
    }
  }
  list.push_back({.block = block, .page = page, .count = 1});
}

std::optional<std::int32_t> SlotMap::acquire(std::span<const BlockId> pages, std::int32_t num_blocks) {
  if (idle_.empty()) return std::nullopt;
  const auto num_owned = static_cast<std::int32_t>(pages.size());
  std::size_t best = 0;
  std::int32_t best_useful = -1, best_vain = 0;
  for (std::size_t i = 0; i < idle_.size(); ++i) {
    const std::int32_t slot = idle_[i], end = num_shown(slot);
    if (end == 0 && best_useful >= 0 && best_vain == 0) continue;  // no better than another
    std::int32_t useful = 0;
    for (std::int32_t at = 0; at < std::min(end, num_blocks); ++at) {
      const BlockId page = shown(slot, at);
      const bool fits = at < num_owned ? page == pages[static_cast<std::size_t>(at)]
                                       : page != kNoPage && pool_.is_free(page);
      useful += fits ? 1 : 0;
    }
    const std::int32_t vain = end - useful;
    if (useful < best_useful || (useful == best_useful && vain >= best_vain)) continue;
    best = i;
    best_useful = useful;
    best_vain = vain;
  }
  const std::int32_t slot = idle_[best];
  idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(best));
  return slot;
}

void SlotMap::release(std::int32_t slot) {
  idle_.push_back(slot);
  num_owned_[static_cast<std::size_t>(slot)] = 0;
  if (!config_.deferred_reclaim) {
    drop(slot, 0);
    return;
  }
  for (std::int32_t at = 0; at < num_shown(slot); ++at) {
    if (shown(slot, at) != kNoPage) pool_.hold_back(shown(slot, at));
  }
}

void SlotMap::drop(std::int32_t slot, std::int32_t from) {
  for (std::int32_t at = num_shown(slot) - 1; at >= from; --at) {
    const BlockId page = shown(slot, at);
    if (page == kNoPage) continue;
    set(slot, at, kNoPage);
    // One call for the whole slot: gaps in between are unmapped a second time.
    if (!now_.empty() && now_.back().page == kNoPage &&
        index(now_.back().block) > index(block_id(slot, at)) &&
        index(now_.back().block) < index(block_id(slot, config_.blocks_per_slot - 1)) + 1) {
      now_.back().count += index(now_.back().block) - index(block_id(slot, at));
      now_.back().block = block_id(slot, at);
    } else {
      now_.push_back({.block = block_id(slot, at), .page = kNoPage, .count = 1});
    }
  }
}

bool SlotMap::has_room(std::int64_t changes) const {
  // A changed block adds two borders at most.
  return config_.max_regions == 0 || num_regions() + 2 * changes <= config_.max_regions;
}

bool SlotMap::make_room(std::int64_t changes) {
  for (std::size_t i = 0; i < idle_.size() && !has_room(changes); ++i) {
    if (num_shown(idle_[i]) == 0) continue;
    drop(idle_[i], 0);
    ++counts_.reclaimed_slots;
  }
  for (std::int32_t slot = 0; slot < config_.num_slots && !has_room(changes); ++slot)
    drop(slot, num_owned_[static_cast<std::size_t>(slot)]);
  return has_room(changes);
}

void SlotMap::show(std::int32_t slot, std::int32_t first, std::span<const BlockId> pages) {
  CHECK(first >= 0 && first + static_cast<std::int32_t>(pages.size()) <= config_.blocks_per_slot);
  num_owned_[static_cast<std::size_t>(slot)] = first + static_cast<std::int32_t>(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::int32_t at = first + static_cast<std::int32_t>(i);
    if (shown(slot, at) == pages[i]) {
      bring_forward(slot);  // it is needed now
      ++counts_.reused_blocks;
      continue;
    }
    set(slot, at, pages[i]);
    record(now_, slot, at, pages[i]);
    ++counts_.mapped_blocks;
  }
}

void SlotMap::shrink(std::int32_t slot, std::int32_t end) {
  num_owned_[static_cast<std::size_t>(slot)] = end;
  for (std::int32_t at = end; at < num_shown(slot); ++at) {
    if (shown(slot, at) != kNoPage) pool_.hold_back(shown(slot, at));
  }
}

std::optional<BlockId> SlotMap::spare_page(std::int32_t slot, std::int32_t at) const {
  if (at >= config_.blocks_per_slot || !has_room(1)) return std::nullopt;
  const BlockId here = shown(slot, at);
  if (here != kNoPage && pool_.is_free(here)) return std::nullopt;  // well already
  const BlockId before = at > 0 ? shown(slot, at - 1) : kNoPage;
  if (before != kNoPage && index(before) + 1 < pool_.num_blocks() && pool_.is_free(after(before)) &&
      !pool_.is_held_back(after(before)))
    return after(before);
  return pool_.peek_free();
}

void SlotMap::show_eagerly(std::int32_t slot, std::int32_t end) {
  for (std::int32_t at = end; at < end + config_.num_eager_blocks; ++at) {
    const std::optional<BlockId> page = spare_page(slot, at);
    if (!page) continue;
    set(slot, at, *page);
    pool_.hold_back(*page);
    record(now_, slot, at, *page);
    ++counts_.ahead_blocks;
  }
}

void SlotMap::show_ahead(std::int32_t slot, std::int32_t next) {
  if (!config_.map_ahead) return;
  std::optional<BlockId> page = spare_page(slot, next);
  const bool well =
      next < config_.blocks_per_slot && shown(slot, next) != kNoPage && pool_.is_free(shown(slot, next));
  // The next step would evict the same page, and map it itself.
  if (!page && !well && has_room(1) && next < config_.blocks_per_slot && pool_.evict_one())
    page = pool_.peek_free();
  if (!page) return;
  set(slot, next, *page);
  pool_.hold_back(*page);
  record(ahead_, slot, next, *page);
  ++counts_.ahead_blocks;
}

std::optional<BlockId> SlotMap::allocate(std::int32_t slot, std::int32_t at, BlockId previous) {
  const BlockId here = at < config_.blocks_per_slot ? shown(slot, at) : kNoPage;
  if (here != kNoPage && pool_.allocate_this(here)) return here;
  if (previous != kNoPage && index(previous) + 1 < pool_.num_blocks() &&
      !pool_.is_held_back(after(previous)) && pool_.allocate_this(after(previous)))
    return after(previous);
  return pool_.allocate_one();
}

void SlotMap::take(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead) {
  now.insert(now.end(), now_.begin(), now_.end());
  ahead.insert(ahead.end(), ahead_.begin(), ahead_.end());
  now_.clear();
  ahead_.clear();
}

void SlotMap::check_invariants() const {
  std::int64_t borders = 0;
  for (std::int32_t slot = 0; slot < config_.num_slots; ++slot) {
    for (std::int32_t at = 0; at <= config_.blocks_per_slot; ++at) borders += border(slot, at);
    for (std::int32_t at = num_shown(slot); at < config_.blocks_per_slot; ++at)
      CHECK(shown(slot, at) == kNoPage);
    CHECK(num_shown(slot) == 0 || shown(slot, num_shown(slot) - 1) != kNoPage);
  }
  CHECK(borders == num_borders_);
  CHECK(config_.max_regions == 0 || num_regions() <= config_.max_regions);
  std::vector<char> seen(static_cast<std::size_t>(config_.num_slots), 0);
  for (const std::int32_t slot : idle_) {
    CHECK(!seen[static_cast<std::size_t>(slot)]);
    seen[static_cast<std::size_t>(slot)] = 1;
    CHECK(num_owned_[static_cast<std::size_t>(slot)] == 0);
    CHECK(config_.deferred_reclaim || num_shown(slot) == 0);
  }
}

}  // namespace pagoda
