#include "kv_cache/free_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {

void FreePages::add(std::int32_t count) {
  const std::int32_t before = num_pages();
  place_.resize(place_.size() + static_cast<std::size_t>(count), kNone);
  used_.resize(place_.size(), false);
  free_.reserve(place_.size());
  for (std::int32_t i = before + count - 1; i >= before; --i) give_back(BlockId{i});
}

void FreePages::give_back(BlockId page) {
  place_[at(page)] = size();
  free_.push_back(page);
}

void FreePages::swap_places(std::int32_t a, std::int32_t b) {
  BlockId& first = free_[static_cast<std::size_t>(a)];
  BlockId& second = free_[static_cast<std::size_t>(b)];
  std::swap(first, second);
  place_[at(first)] = a;
  place_[at(second)] = b;
}

BlockId FreePages::pop_back() {
  const BlockId page = free_.back();
  free_.pop_back();
  place_[at(page)] = kNone;
  if (!used_[at(page)]) ++num_used_;
  used_[at(page)] = true;
  return page;
}

BlockId FreePages::take() {
  CHECK(!free_.empty());
  // Only held-back pages are left: take approximately the one held back for longest.
  if (num_held_ == size()) {
    swap_places(0, size() - 1);
    --num_held_;
  }
  return pop_back();
}

bool FreePages::take(BlockId page) {
  if (!contains(page)) return false;
  let_go(page);
  swap_places(place_[at(page)], size() - 1);
  CHECK(pop_back() == page);
  return true;
}

std::optional<BlockId> FreePages::peek() const {
  if (size() == num_held_) return std::nullopt;
  return free_.back();
}

void FreePages::hold_back(BlockId page) {
  if (!contains(page) || is_held_back(page)) return;
  swap_places(place_[at(page)], num_held_++);
}

void FreePages::let_go(BlockId page) {
  if (is_held_back(page)) swap_places(place_[at(page)], --num_held_);
}

void FreePages::forget_used(std::int32_t keep, std::vector<BlockId>& pages) {
  const auto begin = std::ssize(pages);
  std::int32_t excess = num_used() - keep;
  for (std::size_t i = 0; i < free_.size() && excess > 0; ++i) {
    if (!used_[at(free_[i])]) continue;
    used_[at(free_[i])] = false;
    pages.push_back(free_[i]);
    --excess;
    --num_used_;
  }
  std::sort(pages.begin() + begin, pages.end());
}

void FreePages::check_invariants() const {
  for (std::int32_t i = 0; i < size(); ++i) CHECK(place_[at(free_[static_cast<std::size_t>(i)])] == i);
  CHECK(std::ranges::count_if(place_, [](std::int32_t place) { return place != kNone; }) == size());
  CHECK(num_held_ >= 0 && num_held_ <= size());
  CHECK(num_used_ == std::ranges::count(used_, true) && num_used() >= 0);
  for (std::int32_t i = 0; i < num_pages(); ++i) CHECK(is_used(BlockId{i}) || contains(BlockId{i}));
}

}  // namespace pagoda
