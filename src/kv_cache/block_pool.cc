#include "kv_cache/block_pool.h"

#include <utility>

#include "base/check.h"

namespace pagoda {

BlockPool::BlockPool(std::int32_t num_blocks) {
  CHECK(num_blocks > 0);
  add_blocks(num_blocks);
}

void BlockPool::add_blocks(std::int32_t count) {
  const auto before = static_cast<std::int32_t>(blocks_.size());
  blocks_.resize(blocks_.size() + static_cast<std::size_t>(count));
  free_.reserve(blocks_.size());
  free_at_.resize(blocks_.size(), kNone);
  for (std::int32_t i = before + count - 1; i >= before; --i) push_free(BlockId{i});
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
  return block;
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

std::optional<BlockId> BlockPool::find_cached(const BlockHash& hash) const {
  const auto it = published_.find(hash);
  if (it == published_.end()) return std::nullopt;
  return it->second;
}

std::optional<BlockId> BlockPool::acquire_cached(const BlockHash& hash) {
  const std::optional<BlockId> found = find_cached(hash);
  if (!found) return std::nullopt;
  if (blocks_[at(*found)].ref_count++ == 0) unlink(index(*found));
  return found;
}

void BlockPool::share(BlockId block) {
  CHECK(blocks_[at(block)].ref_count > 0);
  ++blocks_[at(block)].ref_count;
}

bool BlockPool::publish(BlockId block, const BlockHash& hash) {
  Block& entry = blocks_[at(block)];
  CHECK(entry.ref_count > 0);
  if (entry.published || !published_.emplace(hash, block).second) return false;
  entry.published = true;
  entry.hash = hash;
  return true;
}

void BlockPool::release_one(BlockId block) {
  Block& entry = blocks_[at(block)];
  CHECK(entry.ref_count > 0);
  if (--entry.ref_count > 0) return;
  if (entry.published) {
    push_newest(index(block));
  } else {
    push_free(block);
  }
}

void BlockPool::release(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) release_one(block);
}

void BlockPool::clear_cache() {
  while (num_cached_ > 0) evict_oldest();
  for (Block& block : blocks_) block.published = false;
  published_.clear();
}

void BlockPool::push_newest(std::int32_t block) {
  Block& entry = blocks_[static_cast<std::size_t>(block)];
  entry.older = newest_;
  entry.newer = kNone;
  (newest_ == kNone ? oldest_ : blocks_[static_cast<std::size_t>(newest_)].newer) = block;
  newest_ = block;
  ++num_cached_;
}

void BlockPool::unlink(std::int32_t block) {
  Block& entry = blocks_[static_cast<std::size_t>(block)];
  (entry.older == kNone ? oldest_ : blocks_[static_cast<std::size_t>(entry.older)].newer) = entry.newer;
  (entry.newer == kNone ? newest_ : blocks_[static_cast<std::size_t>(entry.newer)].older) = entry.older;
  entry.older = entry.newer = kNone;
  --num_cached_;
}

void BlockPool::evict_oldest() {
  const std::int32_t block = oldest_;
  unlink(block);
  Block& entry = blocks_[static_cast<std::size_t>(block)];
  published_.erase(entry.hash);
  entry.published = false;
  push_free(BlockId{block});
}

void BlockPool::check_invariants() const {
  std::vector<char> seen(blocks_.size(), 0);
  for (const BlockId block : free_) {
    CHECK(!seen[at(block)]);
    seen[at(block)] = 1;
    CHECK(blocks_[at(block)].ref_count == 0 && !blocks_[at(block)].published);
    CHECK(free_[static_cast<std::size_t>(free_at_[at(block)])] == block);
  }
  CHECK(num_held_ >= 0 && num_held_ <= static_cast<std::int32_t>(free_.size()));
  std::int32_t cached = 0, before = kNone;
  for (std::int32_t i = oldest_; i != kNone; i = blocks_[static_cast<std::size_t>(i)].newer) {
    const Block& entry = blocks_[static_cast<std::size_t>(i)];
    CHECK(!seen[static_cast<std::size_t>(i)]);
    seen[static_cast<std::size_t>(i)] = 1;
    CHECK(entry.ref_count == 0 && entry.published && entry.older == before);
    before = i;
    ++cached;
  }
  CHECK(before == newest_ && cached == num_cached_);
  std::size_t published = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    CHECK((blocks_[i].ref_count == 0) == (seen[i] != 0));  // what is in neither list is in use
    if (!blocks_[i].published) continue;
    ++published;
    const auto it = published_.find(blocks_[i].hash);
    CHECK(it != published_.end() && at(it->second) == i);
  }
  CHECK(published == published_.size());
}

}  // namespace pagoda
