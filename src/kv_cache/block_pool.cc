#include "kv_cache/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {

BlockPool::BlockPool(std::int32_t num_blocks, std::int32_t num_dependent_groups, Eviction eviction)
    : cached_(make_eviction_order(eviction)),
      held_back_(make_eviction_order(eviction)),
      num_dependent_(num_dependent_groups) {
  CHECK(num_blocks >= 0);
  add_blocks(num_blocks);
}

void BlockPool::add_blocks(std::int32_t count) {
  const auto before = static_cast<std::int32_t>(blocks_.size());
  blocks_.resize(blocks_.size() + static_cast<std::size_t>(count));
  for (std::int32_t i = before; i < before + count; ++i) blocks_[static_cast<std::size_t>(i)].row = i;
  free_.add(count);
}

BlockHash BlockPool::key(const BlockHash& hash, std::int32_t group) {
  BlockHash out = hash;
  // Any other change would do as well: similar SHA-256 values are unrelated.
  out.words[3] += static_cast<std::uint64_t>(group);
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
  std::vector<BlockId> rows;
  cached_->append(rows);
  held_back_->append(rows);
  for (const BlockId row : rows) append_pages(row, pages);
}

void BlockPool::push_row(std::int32_t row) {
  while (row != kNone) {
    Block& page = blocks_[static_cast<std::size_t>(row)];
    page.row = row;
    free_.give_back(BlockId{row});
    row = std::exchange(page.next, kNone);
  }
}

bool BlockPool::allocate_this(BlockId block) {
  if (!free_.take(block)) return false;
  blocks_[at(block)].ref_count = 1;
  return true;
}

std::optional<BlockId> BlockPool::allocate_one() {
  if (free_.size() == 0) {
    if (num_cached_ == 0) return std::nullopt;
    evict_next();
  }
  const BlockId block = free_.take();
  blocks_[at(block)].ref_count = 1;
  return block;
}

std::optional<BlockId> BlockPool::allocate_row(std::int32_t num_pages, std::vector<BlockId>& pages) {
  CHECK(num_pages >= 1);
  if (num_free() < num_pages) return std::nullopt;
  while (free_.size() < num_pages) evict_next();
  const std::size_t begin = pages.size();
  for (std::int32_t i = 0; i < num_pages; ++i) {
    pages.push_back(free_.take());
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
  evict_next();
  return true;
}

std::optional<BlockId> BlockPool::find_cached(const BlockHash& hash, std::int32_t group) const {
  const auto it = published_.find(key(hash, group));
  if (it == published_.end()) return std::nullopt;
  return it->second;
}

std::optional<BlockId> BlockPool::acquire_cached(const BlockHash& hash, std::int32_t group) {
  const std::optional<BlockId> found = find_cached(hash, group);
  if (!found) return std::nullopt;
  Block& entry = blocks_[at(*found)];
  if (entry.ref_count++ == 0) remove_cached(index(*found));
  ++entry.num_hits;
  return found;
}

void BlockPool::renew(BlockId block) {
  const Block& entry = blocks_[at(block)];
  if (entry.ref_count > 0 || !entry.published) return;
  remove_cached(index(block));
  add_cached(index(block));
  if (on_cached_) on_cached_(block);
}

void BlockPool::begin_leaving(BlockId row) {
  Block& entry = blocks_[at(row)];
  CHECK(entry.published && entry.moves == Moves::no);
  entry.moves = Moves::leaving;
  ++num_leaving_;
}

void BlockPool::end_leaving(BlockId row) {
  Block& entry = blocks_[at(row)];
  CHECK(entry.moves == Moves::leaving);
  entry.moves = Moves::no;
  --num_leaving_;
}

void BlockPool::begin_arriving(BlockId row) {
  Block& entry = blocks_[at(row)];
  CHECK(entry.ref_count > 0 && !entry.published && entry.moves == Moves::no);
  entry.moves = Moves::arriving;
  num_arriving_ += num_pages(index(row));
}

void BlockPool::end_arriving(BlockId row) {
  Block& entry = blocks_[at(row)];
  CHECK(entry.moves == Moves::arriving);
  entry.moves = Moves::no;
  num_arriving_ -= num_pages(index(row));
}

void BlockPool::hold_back(BlockId row) {
  Block& entry = blocks_[at(row)];
  CHECK(entry.published && entry.ref_count == 0 && !entry.held_back);
  cached_->remove(row);
  held_back_->add(row, facts(index(row)));
  entry.held_back = true;
  num_held_back_ += num_pages(index(row));
}

void BlockPool::let_go(BlockId row) {
  CHECK(blocks_[at(row)].held_back);
  remove_cached(index(row));
  add_cached(index(row));
}

void BlockPool::stop_leaving(std::int32_t row) {
  if (blocks_[static_cast<std::size_t>(row)].moves != Moves::leaving) return;
  end_leaving(BlockId{row});
  on_stop_leaving_(BlockId{row});
}

void BlockPool::share(BlockId block) {
  CHECK(blocks_[at(block)].ref_count > 0);
  ++blocks_[at(block)].ref_count;
}

bool BlockPool::publish(BlockId block, const BlockHash& hash, std::int32_t group) {
  Block& entry = blocks_[at(block)];
  CHECK(entry.ref_count > 0);
  CHECK(entry.moves != Moves::arriving);
  if (entry.published || !published_.emplace(key(hash, group), block).second) return false;
  entry.published = true;
  entry.hash = hash;
  entry.group = group;
  entry.num_hits = 0;
  entry.claimed = false;
  return true;
}

void BlockPool::use(BlockId row, const CacheClaim& claim) {
  Block& entry = blocks_[at(row)];
  entry.claim = std::exchange(entry.claimed, true) ? entry.claim.joined_by(claim) : claim;
}

void BlockPool::withdraw_all(const CacheOwner& owner) {
  for (std::int32_t row = 0; row < num_blocks(); ++row) {
    const Block& entry = blocks_[static_cast<std::size_t>(row)];
    if (!entry.published || !owner.covers(entry.claim.owner)) continue;
    const BlockHash hash = entry.hash;
    const bool full = entry.group == 0;
    withdraw(BlockId{row});
    if (full) withdraw_dependents(hash);
  }
}

void BlockPool::report_eviction(BlockId block) {
  CHECK(blocks_[at(block)].published);
  blocks_[at(block)].reported = true;
}

void BlockPool::release_one(BlockId block) {
  Block& entry = blocks_[at(block)];
  CHECK(entry.ref_count > 0);
  if (--entry.ref_count > 0) return;
  CHECK(entry.moves != Moves::arriving);
  if (entry.published) {
    add_cached(index(block));
    if (on_cached_) on_cached_(block);
  } else {
    push_row(index(block));
  }
}

void BlockPool::clear_cache() {
  CacheObserver* observer = std::exchange(cache_observer_, nullptr);  // it is notified once, of all rows
  while (num_cached_ > 0) evict_next();
  cache_observer_ = observer;
  if (observer != nullptr) observer->on_cleared();
  for (std::int32_t row = 0; row < num_blocks(); ++row) stop_leaving(row);
  for (Block& block : blocks_) block.published = block.reported = false;
  published_.clear();
}

CachedRow BlockPool::facts(std::int32_t row) const {
  const Block& entry = blocks_[static_cast<std::size_t>(row)];
  return {.group = entry.group, .num_hits = entry.num_hits, .claim = entry.claim};
}

void BlockPool::add_cached(std::int32_t row) {
  cached_->add(BlockId{row}, facts(row));
  num_cached_ += num_pages(row);
}

void BlockPool::remove_cached(std::int32_t row) {
  const std::int32_t pages = num_pages(row);
  const bool held_back = std::exchange(blocks_[static_cast<std::size_t>(row)].held_back, false);
  (held_back ? held_back_ : cached_)->remove(BlockId{row});
  num_cached_ -= pages;
  num_held_back_ -= held_back ? pages : 0;
}

void BlockPool::forget(std::int32_t row) {
  Block& entry = blocks_[static_cast<std::size_t>(row)];
  published_.erase(key(entry.hash, entry.group));
  entry.published = false;
  if (std::exchange(entry.reported, false) && cache_observer_ != nullptr)
    cache_observer_->on_removed(entry.hash);
  if (entry.group == listened_group_) on_forget_(BlockId{row});
  stop_leaving(row);
}

void BlockPool::withdraw(BlockId block) {
  const Block& entry = blocks_[at(block)];
  CHECK(entry.published);
  const bool cached = entry.ref_count == 0;
  if (cached) remove_cached(index(block));
  forget(index(block));
  if (cached) push_row(index(block));
}

void BlockPool::evict_next() {
  const std::int32_t block = index((num_cached_ > num_held_back_ ? cached_ : held_back_)->next());
  remove_cached(block);
  forget(block);
  const Block& entry = blocks_[static_cast<std::size_t>(block)];
  if (entry.group == 0) withdraw_dependents(entry.hash);
  push_row(block);
}

void BlockPool::withdraw_dependents(const BlockHash& hash) {
  for (std::int32_t group = 1; group <= num_dependent_; ++group)
    if (const std::optional<BlockId> dead = find_cached(hash, group)) withdraw(*dead);
}

void BlockPool::check_invariants() const {
  std::vector<char> seen(blocks_.size(), 0);
  free_.check_invariants();
  CHECK(free_.num_pages() == num_blocks());
  for (std::int32_t i = 0; i < num_blocks(); ++i) {
    const Block& block = blocks_[static_cast<std::size_t>(i)];
    if (!free_.contains(BlockId{i})) continue;
    seen[static_cast<std::size_t>(i)] = 1;
    CHECK(block.ref_count == 0 && !block.published && block.row == i && block.next == kNone);
  }
  std::int32_t cached = 0, held_back = 0;
  std::vector<BlockId> rows;
  cached_->append(rows);
  CHECK(rows.empty() || rows.front() == cached_->next());
  held_back_->append(rows);
  for (const BlockId row : rows) {
    const Block& entry = blocks_[at(row)];
    CHECK(entry.ref_count == 0 && entry.published && entry.row == index(row));
    CHECK(entry.group == 0 || entry.group > num_dependent_ || find_cached(entry.hash, 0));
    for (std::int32_t page = index(row); page != kNone; page = blocks_[static_cast<std::size_t>(page)].next) {
      CHECK(!seen[static_cast<std::size_t>(page)]);
      seen[static_cast<std::size_t>(page)] = 1;
      CHECK(blocks_[static_cast<std::size_t>(page)].row == index(row));
      ++cached;
      held_back += entry.held_back ? 1 : 0;
    }
  }
  CHECK(cached == num_cached_ && held_back == num_held_back_);
  std::size_t published = 0;
  std::int32_t leaving = 0, arriving = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& row = blocks_[static_cast<std::size_t>(blocks_[i].row)];
    CHECK((row.ref_count == 0) == (seen[i] != 0));  // a row in neither list is in use
    CHECK(blocks_[i].row == static_cast<std::int32_t>(i) ||
          (blocks_[i].ref_count == 0 && !blocks_[i].published));
    CHECK(blocks_[i].published || !blocks_[i].reported);
    CHECK(!blocks_[i].held_back || (blocks_[i].published && blocks_[i].ref_count == 0));
    CHECK(blocks_[i].moves != Moves::leaving || blocks_[i].published);
    CHECK(blocks_[i].moves != Moves::arriving || (blocks_[i].ref_count > 0 && !blocks_[i].published));
    leaving += blocks_[i].moves == Moves::leaving ? 1 : 0;
    arriving += row.moves == Moves::arriving ? 1 : 0;
    if (!blocks_[i].published) continue;
    ++published;
    const auto it = published_.find(key(blocks_[i].hash, blocks_[i].group));
    CHECK(it != published_.end() && at(it->second) == i);
  }
  CHECK(published == published_.size());
  CHECK(leaving == num_leaving_ && arriving == num_arriving_);
}

}  // namespace pagoda
