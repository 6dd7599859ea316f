#include "kv_cache/slot_map.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

BlockId after(BlockId page, std::int32_t count = 1) { return BlockId{index(page) + count}; }

}  // namespace

SlotMap::SlotMap(const SlotMapConfig& config, BlockPool& pool, std::vector<std::int32_t> lengths)
    : config_(config), lengths_(std::move(lengths)), pool_(pool) {
  CHECK(config_.num_slots > 0 && config_.num_eager_blocks >= 0);
  CHECK(config_.front_batch > 0);
  CHECK(std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0}) == config_.blocks_per_slot);
  std::int32_t begin = 0;
  for (std::int32_t slot = 0; slot < config_.num_slots; ++slot) {
    idle_.push_back(slot);
    for (const std::int32_t length : lengths_) {
      ranges_.push_back({.begin = begin, .length = length});
      begin += length;
    }
  }
  shown_.resize(static_cast<std::size_t>(begin), kNoPage);
}

std::int64_t SlotMap::border(std::int32_t range, std::int32_t at_block) const {
  const BlockId left = at_block > 0 ? shown(range, at_block - 1) : kNoPage;
  const BlockId right = at_block < at(range).length ? shown(range, at_block) : kNoPage;
  if (left == kNoPage) return right == kNoPage ? 0 : 1;
  return right == after(left) ? 0 : 1;
}

// Moves mappings planned concurrently with the step to before the step.
void SlotMap::bring_forward(std::int32_t range) {
  const Range& of = at(range);
  if (!ahead_.empty() && std::ranges::any_of(ahead_, [&](const PageMapping& mapping) {
        return index(mapping.block) < of.begin + of.length && index(mapping.block) + mapping.count > of.begin;
      })) {
    now_.insert(now_.end(), ahead_.begin(), ahead_.end());
    ahead_.clear();
  }
}

void SlotMap::put(std::int32_t range, std::int32_t at_block, BlockId page) {
  if (shown(range, at_block) != kNoPage) pool_.free_pages().let_go(shown(range, at_block));
  num_borders_ -= border(range, at_block) + border(range, at_block + 1);
  shown_[place(range, at_block)] = page;
  num_borders_ += border(range, at_block) + border(range, at_block + 1);
  Range& of = at(range);
  if (page != kNoPage) {
    of.shown_end = std::max(of.shown_end, at_block + 1);
    of.front = std::min(of.front, at_block);
  }
  while (of.shown_end > 0 && shown(range, of.shown_end - 1) == kNoPage) --of.shown_end;
}

void SlotMap::set(std::int32_t range, std::int32_t at_block, BlockId page) {
  bring_forward(range);  // the block may have a pending mapping
  put(range, at_block, page);
}

void SlotMap::record(std::vector<PageMapping>& list, std::int32_t range, std::int32_t at, BlockId page) {
  const BlockId block = block_id(range, at);
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

std::optional<std::int32_t> SlotMap::acquire(std::span<const RangeNeed> needs) {
  CHECK(std::ssize(needs) == num_ranges());
  if (idle_.empty()) return std::nullopt;
  std::size_t best = 0;
  std::int32_t best_useful = -1, best_vain = 0;
  for (std::size_t i = 0; i < idle_.size(); ++i) {
    std::int32_t useful = 0, vain = 0;
    for (std::size_t number = 0; number < needs.size(); ++number) {
      const std::int32_t range = range_of(idle_[i], number), end = num_shown(range);
      if (end == 0) continue;
      const RangeNeed& need = needs[number];
      const std::int32_t owned_end = need.first + static_cast<std::int32_t>(need.pages.size());
      std::int32_t of_use = 0;
      for (std::int32_t at = need.first; at < std::min(end, need.end); ++at) {
        const BlockId page = shown(range, at);
        const bool fits = at < owned_end ? page == need.pages[static_cast<std::size_t>(at - need.first)]
                                         : page != kNoPage && pool_.free_pages().contains(page);
        of_use += fits ? 1 : 0;
      }
      useful += of_use;
      vain += end - of_use;
    }
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
  for (std::size_t number = 0; number < lengths_.size(); ++number) {
    const std::int32_t range = range_of(slot, number);
    at(range).first = at(range).end = 0;
    if (!config_.deferred_reclaim) {
      drop(range, 0);
      continue;
    }
    for (std::int32_t i = at(range).front; i < num_shown(range); ++i) {
      if (shown(range, i) != kNoPage) pool_.free_pages().hold_back(shown(range, i));
    }
  }
}

void SlotMap::drop(std::int32_t range, std::int32_t from) {
  for (std::int32_t i = num_shown(range) - 1; i >= std::max(from, at(range).front); --i) {
    if (shown(range, i) == kNoPage) continue;
    set(range, i, kNoPage);
    // One call for the whole range: gaps are unmapped a second time.
    if (!now_.empty() && now_.back().page == kNoPage &&
        index(now_.back().block) > index(block_id(range, i)) &&
        index(now_.back().block) < at(range).begin + at(range).length) {
      now_.back().count += index(now_.back().block) - index(block_id(range, i));
      now_.back().block = block_id(range, i);
    } else {
      now_.push_back({.block = block_id(range, i), .page = kNoPage, .count = 1});
    }
  }
}

void SlotMap::drop_front(std::int32_t range) {
  Range& of = at(range);
  std::int32_t begin = of.first, end = of.front;
  for (std::int32_t i = of.front; i < std::min(of.first, of.shown_end); ++i) {
    if (shown(range, i) == kNoPage) continue;
    set(range, i, kNoPage);
    begin = std::min(begin, i);
    end = i + 1;
  }
  of.front = std::max(of.front, of.first);
  if (begin < end) now_.push_back({.block = block_id(range, begin), .page = kNoPage, .count = end - begin});
}

bool SlotMap::has_room(std::int64_t changes) const {
  // A changed block adds at most two borders.
  return config_.max_regions == 0 || num_regions() + 2 * changes <= config_.max_regions;
}

bool SlotMap::make_space(std::int64_t changes) {
  for (std::size_t i = 0; i < idle_.size() && !has_room(changes); ++i) {
    bool any = false;
    for (std::size_t number = 0; number < lengths_.size(); ++number) {
      const std::int32_t range = range_of(idle_[i], number);
      any |= num_shown(range) > 0;
      drop(range, 0);
    }
    counts_.reclaimed_slots += any ? 1 : 0;
  }
  for (std::int32_t range = 0; range < std::ssize(ranges_) && !has_room(changes); ++range) {
    drop(range, at(range).end);
    drop_front(range);
  }
  return has_room(changes);
}

void SlotMap::show(std::int32_t range, std::int32_t first, std::span<const BlockId> pages) {
  CHECK(first >= 0 && first + static_cast<std::int32_t>(pages.size()) <= at(range).length);
  at(range).end = first + static_cast<std::int32_t>(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::int32_t here = first + static_cast<std::int32_t>(i);
    if (shown(range, here) == pages[i]) {
      bring_forward(range);  // it is needed now
      ++counts_.reused_blocks;
      continue;
    }
    set(range, here, pages[i]);
    record(now_, range, here, pages[i]);
    ++counts_.mapped_blocks;
  }
}

void SlotMap::shrink(std::int32_t range, std::int32_t end) {
  at(range).end = end;
  for (std::int32_t i = end; i < num_shown(range); ++i) {
    if (shown(range, i) != kNoPage) pool_.free_pages().hold_back(shown(range, i));
  }
}

void SlotMap::leave_front(std::int32_t range, std::int32_t first) {
  Range& of = at(range);
  of.first = first;
  if (first - of.front >= config_.front_batch) drop_front(range);
}

std::optional<BlockId> SlotMap::spare_page(std::int32_t range, std::int32_t at_block) const {
  if (at_block >= at(range).length || !has_room(1)) return std::nullopt;
  const BlockId here = shown(range, at_block);
  // Already mapped to a free page.
  if (here != kNoPage && pool_.free_pages().contains(here)) return std::nullopt;
  const BlockId before = at_block > 0 ? shown(range, at_block - 1) : kNoPage;
  if (before != kNoPage && index(before) + 1 < pool_.num_blocks() &&
      pool_.free_pages().contains(after(before)) && !pool_.free_pages().is_held_back(after(before)))
    return after(before);
  return pool_.free_pages().peek();
}

void SlotMap::show_eagerly(std::int32_t range, std::int32_t end, std::int32_t per_row) {
  for (std::int32_t i = end; i < end + config_.num_eager_blocks * per_row; ++i) {
    const std::optional<BlockId> page = spare_page(range, i);
    if (!page) continue;
    set(range, i, *page);
    pool_.free_pages().hold_back(*page);
    record(now_, range, i, *page);
    ++counts_.ahead_blocks;
  }
}

void SlotMap::show_ahead(std::int32_t range, std::int32_t next, std::int32_t count) {
  if (!config_.map_ahead) return;
  bool changed = false;
  for (std::int32_t i = next; i < std::min(next + count, at(range).length); ++i) {
    std::optional<BlockId> page = spare_page(range, i);
    const bool well = shown(range, i) != kNoPage && pool_.free_pages().contains(shown(range, i));
    // The next step would evict the same page and map it itself.
    if (!page && !well && has_room(1) && pool_.evict_one()) page = pool_.free_pages().peek();
    if (!page) continue;
    if (!changed) bring_forward(range);  // each block changes at most once here
    changed = true;
    put(range, i, *page);
    pool_.free_pages().hold_back(*page);
    record(ahead_, range, i, *page);
    ++counts_.ahead_blocks;
  }
}

std::optional<BlockId> SlotMap::allocate(std::int32_t range, std::int32_t at_block, BlockId previous) {
  const BlockId here = at_block < at(range).length ? shown(range, at_block) : kNoPage;
  if (here != kNoPage && pool_.allocate_this(here)) return here;
  if (previous != kNoPage && index(previous) + 1 < pool_.num_blocks() &&
      !pool_.free_pages().is_held_back(after(previous)) && pool_.allocate_this(after(previous)))
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
  for (std::int32_t range = 0; range < std::ssize(ranges_); ++range) {
    const Range& of = at(range);
    CHECK(of.first <= of.end || of.end == 0);
    for (std::int32_t i = 0; i <= of.length; ++i) borders += border(range, i);
    for (std::int32_t i = 0; i < of.length; ++i)
      CHECK(shown(range, i) == kNoPage || (i >= of.front && i < of.shown_end));
    CHECK(of.shown_end == 0 || shown(range, of.shown_end - 1) != kNoPage);
    // Pages that a window has left are kept only until they fill a batch.
    CHECK(of.first - of.front < config_.front_batch);
  }
  CHECK(borders == num_borders_);
  CHECK(config_.max_regions == 0 || num_regions() <= config_.max_regions);
  std::vector<char> seen(static_cast<std::size_t>(config_.num_slots), 0);
  for (const std::int32_t slot : idle_) {
    CHECK(!seen[static_cast<std::size_t>(slot)]);
    seen[static_cast<std::size_t>(slot)] = 1;
    for (std::size_t number = 0; number < lengths_.size(); ++number) {
      const std::int32_t range = range_of(slot, number);
      CHECK(at(range).first == 0 && at(range).end == 0);
      CHECK(config_.deferred_reclaim || num_shown(range) == 0);
    }
  }
}

}  // namespace pagoda
