#include "kv_cache/buddy_allocator.h"

#include <bit>

#include "base/check.h"

namespace pagoda {
namespace {

std::int32_t order_of(std::int32_t count) {
  return static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(count - 1)));
}
std::int32_t size_of(std::int32_t order) { return std::int32_t{1} << order; }

}  // namespace

BuddyAllocator::BuddyAllocator(std::int32_t num_blocks) : num_blocks_(num_blocks), num_free_(num_blocks) {
  CHECK(num_blocks > 0);
  const auto highest = static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(num_blocks))) - 1;
  free_.resize(static_cast<std::size_t>(highest) + 1);
  // Largest regions first, so that each starts at a multiple of its size.
  std::int32_t first = 0;
  for (std::int32_t order = highest; order >= 0; --order) {
    if ((num_blocks & size_of(order)) == 0) continue;
    free_[static_cast<std::size_t>(order)].insert(first);
    first += size_of(order);
  }
}

std::int32_t BuddyAllocator::region_size(std::int32_t count) {
  CHECK(count > 0 && count <= (1 << 30));
  return size_of(order_of(count));
}

std::int64_t BuddyAllocator::regions_when_empty(std::int32_t count) const {
  CHECK(count > 0);
  return num_blocks_ / static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(count)));
}

std::optional<std::int32_t> BuddyAllocator::allocate(std::int32_t count) {
  CHECK(count > 0);
  const auto wanted = static_cast<std::size_t>(order_of(count));
  std::size_t order = wanted;
  while (order < free_.size() && free_[order].empty()) ++order;
  if (order >= free_.size()) return std::nullopt;
  const std::int32_t first = *free_[order].begin();
  free_[order].erase(free_[order].begin());
  while (order > wanted) {
    --order;
    free_[order].insert(first + size_of(static_cast<std::int32_t>(order)));
  }
  in_use_.emplace(first, static_cast<std::int32_t>(wanted));
  num_free_ -= size_of(static_cast<std::int32_t>(wanted));
  return first;
}

void BuddyAllocator::free(std::int32_t first) {
  const auto it = in_use_.find(first);
  CHECK(it != in_use_.end());
  auto order = static_cast<std::size_t>(it->second);
  in_use_.erase(it);
  num_free_ += size_of(static_cast<std::int32_t>(order));
  for (; order + 1 < free_.size(); ++order) {
    const std::int32_t buddy = first ^ size_of(static_cast<std::int32_t>(order));
    if (free_[order].erase(buddy) == 0) break;
    first &= ~size_of(static_cast<std::int32_t>(order));
  }
  free_[order].insert(first);
}

void BuddyAllocator::check_invariants() const {
  std::map<std::int32_t, std::int32_t> regions;  // first -> size
  std::int64_t num_free = 0;
  for (std::size_t order = 0; order < free_.size(); ++order) {
    const std::int32_t size = size_of(static_cast<std::int32_t>(order));
    for (const std::int32_t first : free_[order]) {
      CHECK(first % size == 0);
      CHECK(order + 1 >= free_.size() || !free_[order].contains(first ^ size));
      CHECK(regions.emplace(first, size).second);
      num_free += size;
    }
  }
  CHECK(num_free == num_free_);
  for (const auto& [first, order] : in_use_) {
    CHECK(first % size_of(order) == 0);
    CHECK(regions.emplace(first, size_of(order)).second);
  }
  std::int32_t end = 0;
  for (const auto& [first, size] : regions) {
    CHECK(first == end);
    end += size;
  }
  CHECK(end == num_blocks_);
}

}  // namespace pagoda
