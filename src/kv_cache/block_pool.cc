#include "kv_cache/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {

BlockPool::BlockPool(std::int32_t num_blocks) {
  CHECK(num_blocks >= 0);
  add_blocks(num_blocks);
}

void BlockPool::add_blocks(std::int32_t count) {
  const auto before = static_cast<std::int32_t>(blocks_.size());
  blocks_.resize(blocks_.size() + static_cast<std::size_t>(count));
  free_.reserve(blocks_.size());
  free_at_.resize(blocks_.size(), kNone);
  for (std::int32_t i = before + count - 1; i >= before; --i) {
    blocks_[static_cast<std::size_t>(i)].row = i;
    push_free(BlockId{i});
  }
}

BlockHash BlockPool::key(const BlockHash& hash, std::int32_t group) {
  BlockHash out = hash;
  out.words[3] +=
      static_cast<std::uint64_t>(group);  // any other change is as good: SHA-256 has no neighbours
  return out;
}

std::int32_t BlockPool::num_pages(std::int32_t row) const {
  std::int32_t count = 0;
  for (std::int32_t i = row; i != kNone; i = blocks_[static_cast<std::size_t>(i)].next) ++count;
  return count;
}

void BlockPool::append_pages(BlockId block, std::vector<BlockId>& pages) const {
  for (std::int32_t i = index(block); i != kNone; i = blocks_[static_cast<std::size_t>(i)].next)
    pages.push_back(BlockId{i});
}

void BlockPool::append_cached(std::vector<BlockId>& pages) const {
  for (std::int32_t row = oldest_; row != kNone; row = blocks_[static_cast<std::size_t>(row)].newer)
    append_pages(BlockId{row}, pages);
}

void BlockPool::push_row(std::int32_t row) {
  while (row != kNone) {
    Block& page = blocks_[static_cast<std::size_t>(row)];
    page.row = row;
    push_free(BlockId{row});
    row = std::exchange(page.next, kNone);
  }
}

void BlockPool::push_free(BlockId block) {
  free_at_[at(block)] = static_cast<std::int32_t>(free_.size());
  free_.push_back(block);
}

void BlockPool::move_free(std::int32_t a, std::int32_t b) {
  std::swap(free_[static_cast<std::size_t>(a)], free_[static_cast<std::size_t>(b)]);
  free_at_[at(free_[static_cast<std::size_t>(a)])] = a;
  free_at_[at(free_[static_cast<std::size_t>(b)])] = b;
}

BlockId BlockPool::pop_free() {
  CHECK(!free_.empty());
  const auto last = static_cast<std::int32_t>(free_.size()) - 1;
  if (num_held_ > last) {  // only such: the one held back for longest, about
    move_free(0, last);
    --num_held_;
  }
  const BlockId block = free_.back();
  free_.pop_back();
  free_at_[at(block)] = kNone;
  if (!std::exchange(blocks_[at(block)].used, true)) ++num_used_;
  return block;
}

void BlockPool::forget_used(std::int32_t keep, std::vector<BlockId>& pages) {
  const auto begin = std::ssize(pages);
  std::int32_t excess = num_free_used() - keep;
  for (std::size_t i = 0; i < free_.size() && excess > 0; ++i) {
    if (!std::exchange(blocks_[at(free_[i])].used, false)) continue;
    pages.push_back(free_[i]);
    --excess;
    --num_used_;
  }
  std::sort(pages.begin() + begin, pages.end());
}

bool BlockPool::allocate_this(BlockId block) {
  if (!is_free(block)) return false;
  let_go(block);
  move_free(free_at_[at(block)], static_cast<std::int32_t>(free_.size()) - 1);
  CHECK(pop_free() == block);
  blocks_[at(block)].ref_count = 1;
  return true;
}

void BlockPool::hold_back(BlockId block) {
  if (!is_free(block) || is_held_back(block)) return;
  move_free(free_at_[at(block)], num_held_++);
}

void BlockPool::let_go(BlockId block) {
  if (is_held_back(block)) move_free(free_at_[at(block)], --num_held_);
}

std::optional<BlockId> BlockPool::peek_free() const {
  if (static_cast<std::int32_t>(free_.size()) == num_held_) return std::nullopt;
  return free_.back();
}

std::optional<BlockId> BlockPool::allocate_one() {
  if (free_.empty()) {
    if (num_cached_ == 0) return std::nullopt;
    evict_oldest();
  }
  const BlockId block = pop_free();
  blocks_[at(block)].ref_count = 1;
  return block;
}

std::optional<BlockId> BlockPool::allocate_row(std::int32_t num_pages, std::vector<BlockId>& pages) {
  CHECK(num_pages >= 1);
  if (num_free() < num_pages) return std::nullopt;
  while (static_cast<std::int32_t>(free_.size()) < num_pages) evict_oldest();
  const std::size_t begin = pages.size();
  for (std::int32_t i = 0; i < num_pages; ++i) {
    pages.push_back(pop_free());
    blocks_[at(pages.back())].ref_count = 1;
  }
  join(std::span(pages).subspan(begin));
  return pages[begin];
}

void BlockPool::join(std::span<const BlockId> pages) {
  for (std::size_t i = 1; i < pages.size(); ++i) {
    Block& page = blocks_[at(pages[i])];
    CHECK(page.ref_count == 1 && !page.published && page.row == index(pages[i]) && page.next == kNone);
    page.ref_count = 0;
    page.row = index(pages[0]);
    blocks_[at(pages[i - 1])].next = index(pages[i]);
  }
}

bool BlockPool::evict_one() {
  if (num_cached_ == 0) return false;
  evict_oldest();
  return true;
}

std::optional<std::vector<BlockId>> BlockPool::allocate(std::int32_t count) {
  CHECK(count >= 0);
  if (num_free() < count) return std::nullopt;
  std::vector<BlockId> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) out.push_back(*allocate_one());
  return out;
}

std::optional<BlockId> BlockPool::find_cached(const BlockHash& hash, std::int32_t group) const {
  const auto it = published_.find(key(hash, group));
  if (it == published_.end()) return std::nullopt;
  return it->second;
}

std::optional<BlockId> BlockPool::acquire_cached(const BlockHash& hash, std::int32_t group) {
  const std::optional<BlockId> found = find_cached(hash, group);
  if (!found) return std::nullopt;
  if (blocks_[at(*found)].ref_count++ == 0) unlink(index(*found));
  return found;
}

void BlockPool::renew(BlockId block) {
  const Block& entry = blocks_[at(block)];
  if (entry.ref_count > 0 || !entry.published) return;
  unlink(index(block));
  push_newest(index(block));
}

void BlockPool::share(BlockId block) {
  CHECK(blocks_[at(block)].ref_count > 0);
  ++blocks_[at(block)].ref_count;
}

bool BlockPool::publish(BlockId block, const BlockHash& hash, std::int32_t group) {
  Block& entry = blocks_[at(block)];
  CHECK(entry.ref_count > 0);
  if (entry.published || !published_.emplace(key(hash, group), block).second) return false;
  entry.published = true;
  entry.hash = hash;
  entry.group = group;
  return true;
}

void BlockPool::tell_when_forgotten(BlockId block) {
  CHECK(blocks_[at(block)].published);
  blocks_[at(block)].told = true;
}

void BlockPool::release_one(BlockId block) {
  Block& entry = blocks_[at(block)];
  CHECK(entry.ref_count > 0);
  if (--entry.ref_count > 0) return;
  if (entry.published) {
    push_newest(index(block));
  } else {
    push_row(index(block));
  }
}

void BlockPool::release(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) release_one(block);
}

void BlockPool::clear_cache() {
  CacheObserver* observer = std::exchange(cache_observer_, nullptr);  // who hears of all at once
  while (num_cached_ > 0) evict_oldest();
  cache_observer_ = observer;
  if (observer != nullptr) observer->on_cleared();
  for (Block& block : blocks_) block.published = block.told = false;
  published_.clear();
}

void BlockPool::push_newest(std::int32_t block) {
  Block& entry = blocks_[static_cast<std::size_t>(block)];
  entry.older = newest_;
  entry.newer = kNone;
  (newest_ == kNone ? oldest_ : blocks_[static_cast<std::size_t>(newest_)].newer) = block;
  newest_ = block;
  num_cached_ += num_pages(block);
}

void BlockPool::unlink(std::int32_t block) {
  Block& entry = blocks_[static_cast<std::size_t>(block)];
  (entry.older == kNone ? oldest_ : blocks_[static_cast<std::size_t>(entry.older)].newer) = entry.newer;
  (entry.newer == kNone ? newest_ : blocks_[static_cast<std::size_t>(entry.newer)].older) = entry.older;
  entry.older = entry.newer = kNone;
  num_cached_ -= num_pages(block);
}

void BlockPool::forget(std::int32_t row) {
  Block& entry = blocks_[static_cast<std::size_t>(row)];
  published_.erase(key(entry.hash, entry.group));
  entry.published = false;
  if (std::exchange(entry.told, false) && cache_observer_ != nullptr) cache_observer_->on_removed(entry.hash);
  if (entry.group == listened_group_) on_forget_(BlockId{row});
}

void BlockPool::withdraw(BlockId block) {
  const Block& entry = blocks_[at(block)];
  CHECK(entry.published);
  const bool cached = entry.ref_count == 0;
  if (cached) unlink(index(block));
  forget(index(block));
  if (cached) push_row(index(block));
}

void BlockPool::evict_oldest() {
  const std::int32_t block = oldest_;
  unlink(block);
  forget(block);
  const Block& entry = blocks_[static_cast<std::size_t>(block)];
  for (std::int32_t group = 1; entry.group == 0 && group <= num_dependent_; ++group) {
    const std::optional<BlockId> dead = find_cached(entry.hash, group);
    if (!dead) continue;
    withdraw(*dead);
  }
  push_row(block);
}

void BlockPool::check_invariants() const {
  std::vector<char> seen(blocks_.size(), 0);
  for (const BlockId block : free_) {
    CHECK(!seen[at(block)]);
    seen[at(block)] = 1;
    CHECK(blocks_[at(block)].ref_count == 0 && !blocks_[at(block)].published);
    CHECK(blocks_[at(block)].row == index(block) && blocks_[at(block)].next == kNone);
    CHECK(free_[static_cast<std::size_t>(free_at_[at(block)])] == block);
  }
  CHECK(num_held_ >= 0 && num_held_ <= static_cast<std::int32_t>(free_.size()));
  const auto is_used = [](const Block& block) { return block.used; };
  CHECK(num_used_ == std::count_if(blocks_.begin(), blocks_.end(), is_used) && num_free_used() >= 0);
  std::int32_t cached = 0, before = kNone;
  for (std::int32_t i = oldest_; i != kNone; i = blocks_[static_cast<std::size_t>(i)].newer) {
    const Block& entry = blocks_[static_cast<std::size_t>(i)];
    CHECK(entry.ref_count == 0 && entry.published && entry.older == before && entry.row == i);
    CHECK(entry.group == 0 || entry.group > num_dependent_ || find_cached(entry.hash, 0));
    before = i;
    for (std::int32_t page = i; page != kNone; page = blocks_[static_cast<std::size_t>(page)].next) {
      CHECK(!seen[static_cast<std::size_t>(page)]);
      seen[static_cast<std::size_t>(page)] = 1;
      CHECK(blocks_[static_cast<std::size_t>(page)].row == i);
      ++cached;
    }
  }
  CHECK(before == newest_ && cached == num_cached_);
  std::size_t published = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& row = blocks_[static_cast<std::size_t>(blocks_[i].row)];
    CHECK((row.ref_count == 0) == (seen[i] != 0));  // what is in neither list is in use
    CHECK(blocks_[i].used || free_at_[i] != kNone);
    CHECK(blocks_[i].row == static_cast<std::int32_t>(i) ||
          (blocks_[i].ref_count == 0 && !blocks_[i].published));
    CHECK(blocks_[i].published || !blocks_[i].told);
    if (!blocks_[i].published) continue;
    ++published;
    const auto it = published_.find(key(blocks_[i].hash, blocks_[i].group));
    CHECK(it != published_.end() && at(it->second) == i);
  }
  CHECK(published == published_.size());
}

}  // namespace pagoda
