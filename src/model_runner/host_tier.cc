#include "model_runner/host_tier.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {

Result<std::unique_ptr<HostTier>> HostTier::create(std::int64_t num_pages, std::size_t page_bytes) {
  if (num_pages < 1 || num_pages > std::numeric_limits<std::int32_t>::max() || page_bytes == 0)
    return invalid_argument(concat("an offloaded KV cache of ", num_pages, " pages"));
  auto memory = Memory::reserve(static_cast<std::size_t>(num_pages) * page_bytes);
  if (!memory) return memory.error().annotate("offloaded KV cache");
  return std::unique_ptr<HostTier>(
      new HostTier(*std::move(memory), static_cast<std::int32_t>(num_pages), page_bytes));
}

HostTier::HostTier(Memory memory, std::int32_t num_pages, std::size_t page_bytes)
    : page_bytes_(page_bytes), num_pages_(num_pages), memory_(std::move(memory)) {
  for (std::int32_t page = num_pages - 1; page >= 0; --page) free_.push_back(page);
}

bool HostTier::lookup(const TierKey& key) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(key);
}

bool HostTier::fetch(const TierRow& row, std::span<std::byte> bytes) {
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(row.key);
    if (it == entries_.end()) return false;
    entry = &it->second;
    if (entry->tokens != row.tokens || bytes.size() != entry->pages.size() * page_bytes_) return false;
    ++entry->num_readers;  // keeps the entry in place
  }
  for (std::size_t i = 0; i < entry->pages.size(); ++i)
    std::memcpy(bytes.data() + i * page_bytes_, page(entry->pages[i]), page_bytes_);
  const std::lock_guard lock(mutex_);
  --entry->num_readers;
  return true;
}

bool HostTier::make_space(std::size_t num_pages, std::uint64_t use, std::vector<TierKey>& gone) {
  if (num_pages > static_cast<std::size_t>(num_pages_)) return false;
  const TimeNs now = clock_.now();
  for (auto it = by_use_.begin(); free_.size() < num_pages && it != by_use_.end() && it->first < use;) {
    const auto at = entries_.find(it->second);
    CHECK(at != entries_.end());
    if (at->second.num_readers > 0 || at->second.held_until > now) {
      ++it;
      continue;
    }
    free_.insert(free_.end(), at->second.pages.rbegin(), at->second.pages.rend());
    gone.push_back(at->first);
    entries_.erase(at);
    it = by_use_.erase(it);
  }
  return free_.size() >= num_pages;
}

bool HostTier::store(const TierRow& row, std::span<const std::byte> bytes, std::vector<TierKey>& gone) {
  CHECK(bytes.size() % page_bytes_ == 0);
  Entry entry{.tokens = row.tokens, .pages = {}, .use = row.use};
  {
    const std::lock_guard lock(mutex_);
    if (entries_.contains(row.key)) return true;
    const std::size_t num_pages = bytes.size() / page_bytes_;
    if (!make_space(num_pages, row.use, gone)) return false;
    entry.pages.assign(free_.rbegin(), free_.rbegin() + static_cast<std::ptrdiff_t>(num_pages));
    free_.resize(free_.size() - num_pages);
  }
  for (std::size_t i = 0; i < entry.pages.size(); ++i)
    std::memcpy(page(entry.pages[i]), bytes.data() + i * page_bytes_, page_bytes_);
  const std::lock_guard lock(mutex_);
  if (entries_.contains(row.key) || by_use_.contains(row.use)) {  // stored twice concurrently
    free_.insert(free_.end(), entry.pages.rbegin(), entry.pages.rend());
    return entries_.contains(row.key);
  }
  by_use_.emplace(row.use, row.key);
  entries_.emplace(row.key, std::move(entry));
  return true;
}

void HostTier::touch(const TierRow& row) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(row.key);
  if (it == entries_.end() || it->second.use >= row.use) return;
  by_use_.erase(it->second.use);
  it->second.use = row.use;
  by_use_.emplace(row.use, row.key);
}

void HostTier::hold(std::span<const TierKey> keys, TimeNs until) {
  const std::lock_guard lock(mutex_);
  const TimeNs now = clock_.now();
  std::size_t held = 0;
  for (const auto& [key, entry] : entries_)
    if (entry.held_until > now) held += entry.pages.size();
  for (const TierKey& key : keys) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) continue;
    Entry& entry = it->second;
    if (entry.held_until <= now) held += entry.pages.size();
    if (held > static_cast<std::size_t>(num_pages_) / 2) return;
    entry.held_until = std::max(entry.held_until, until);
  }
}

// The bytes remain until other rows reuse the pages: this memory ends with the process.
Status HostTier::erase(const TierErase& what) {
  const std::lock_guard lock(mutex_);
  for (const TierKey& key : what.keys) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) continue;
    CHECK(it->second.num_readers == 0);  // no other call is in progress during an erase
    free_.insert(free_.end(), it->second.pages.rbegin(), it->second.pages.rend());
    by_use_.erase(it->second.use);
    entries_.erase(it);
  }
  return ok_status();
}

void HostTier::erase_all() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  by_use_.clear();
  free_.clear();
  for (std::int32_t page = num_pages_ - 1; page >= 0; --page) free_.push_back(page);
  memory_.discard();
}

}  // namespace pagoda
