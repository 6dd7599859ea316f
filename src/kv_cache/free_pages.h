#pragma once
// FreePages: the FREE pages of a block pool, and the order in which they are handed out: last given back
// first, so that touched memory grows only with the K/V really used. Pages that are held back are handed out
// after all others. It tracks which pages were handed out since the start or forget_used(): their memory may
// be resident although they are free.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <vector>

#include "request/ids.h"

namespace pagoda {

class FreePages {
 public:
  // Adds unused pages, numbered from num_pages(); the lowest is handed out first.
  void add(std::int32_t count);
  void give_back(BlockId page);  // must not be free
  BlockId take();                // CHECKs that a page is free
  bool take(BlockId page);       // takes exactly this page; false: not free
  bool contains(BlockId page) const { return place_[at(page)] != kNone; }
  // The next page that is not held back, without taking it.
  std::optional<BlockId> peek() const;

  // No-ops unless the page is free.
  void hold_back(BlockId page);
  void let_go(BlockId page);
  bool is_held_back(BlockId page) const { return contains(page) && place_[at(page)] < num_held_; }

  std::int32_t size() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t num_pages() const { return static_cast<std::int32_t>(place_.size()); }
  bool is_used(BlockId page) const { return used_[at(page)]; }  // always, unless the page is free
  std::int32_t num_used() const { return num_used_ - (num_pages() - size()); }  // free pages that were used
  // Marks all but `keep` used free pages as never used and appends them, lowest id first. Pages that would be
  // handed out last are chosen first.
  void forget_used(std::int32_t keep, std::vector<BlockId>& pages);
  void check_invariants() const;

 private:
  static constexpr std::int32_t kNone = -1;
  static std::size_t at(BlockId page) { return static_cast<std::size_t>(index(page)); }
  void swap_places(std::int32_t a, std::int32_t b);
  BlockId pop_back();

  std::vector<BlockId> free_;        // used as a stack; the first num_held_ are held back
  std::vector<std::int32_t> place_;  // by page: its place in free_, or kNone
  std::vector<bool> used_;           // by page
  std::int32_t num_held_ = 0;
  std::int32_t num_used_ = 0;  // pages, free or not
};

}  // namespace pagoda
