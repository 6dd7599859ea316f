// Swapping of PagedKvManager: whole gangs between the pool and the swap space.
#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "kv_cache/paged_kv_manager.h"

namespace pagoda {

SwapCost PagedKvManager::swap_cost(std::span<const SequenceId> ids) const {
  SwapCost cost;
  std::int64_t num_full = 0;
  std::unordered_set<std::int32_t> seen;
  for (const SequenceId id : ids) {
    const Table& table = at(id);
    cost.tokens += table.num_computed;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (std::int32_t i = table.groups[group].first; i < rows_for(group, table.num_computed); ++i) {
        if (!seen.insert(index(row(table, group, i))).second) continue;
        cost.pages += groups_[group].pages_per_row;
        num_full += group == 0 ? 1 : 0;
      }
    }
  }
  // Recomputed, a gang shares again what it shares now.
  if (sees_all_) cost.tokens = std::min(cost.tokens, num_full * config_.block_size);
  return cost;
}

bool PagedKvManager::swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (num_free_swap_blocks() < swap_cost(ids).pages) return false;
  if (!swap_pool_) return false;
  std::unordered_map<std::int32_t, BlockId> moved;
  for (const SequenceId id : ids) {
    Table& table = at(id);
    CHECK(!table.swapped);
    end_promise(id, table);
    drop_snapshots(table);
    std::vector<Rows> kept(groups_.size());
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      const std::size_t per_row = num(groups_[group].pages_per_row);
      Rows& rows = kept[group] = rows_from(group, table.groups[group].first);
      for (; rows.end < rows_for(group, table.num_computed); ++rows.end) {
        const std::size_t begin = num(rows.end) * per_row;
        const BlockId block = table.groups[group].pages[begin];
        if (const auto it = moved.find(index(block)); it != moved.end()) {
          swap_pool_->share(it->second);
          swap_pool_->append_pages(it->second, rows.pages);
          continue;
        }
        const auto to = swap_pool_->allocate_row(groups_[group].pages_per_row, rows.pages);
        CHECK(to);
        moved.emplace(index(block), *to);
        for (std::size_t i = begin; i < begin + per_row; ++i)
          copies.push_back(
              {.block = table.groups[group].pages[i], .swap_block = SwapBlockId{index(rows.pages[i])}});
      }
    }
    // What is published stays findable in the pool until it is evicted; the sequence has its own copy.
    release_rows(table);
    table.groups = std::move(kept);
    table.num_tokens = table.num_computed;
    table.swapped = true;
  }
  return true;
}

bool PagedKvManager::swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (const std::int64_t pages = swap_cost(ids).pages;
      num_available_blocks() < pages || pool_.num_free() < pages)
    return false;
  std::unordered_map<std::int32_t, BlockId> moved;
  for (const SequenceId id : ids) {
    Table& table = at(id);
    CHECK(table.swapped);
    std::vector<Rows> back(groups_.size());
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      const Rows& from = table.groups[group];
      const std::size_t per_row = num(groups_[group].pages_per_row);
      Rows& rows = back[group] = rows_from(group, from.first);
      for (; rows.end < from.end; ++rows.end) {
        const std::size_t begin = num(rows.end) * per_row;
        const BlockId block = from.pages[begin];
        if (const auto it = moved.find(index(block)); it != moved.end()) {
          pool_.share(it->second);
          pool_.append_pages(it->second, rows.pages);
          continue;
        }
        const auto to = pool_.allocate_row(groups_[group].pages_per_row, rows.pages);
        CHECK(to);
        moved.emplace(index(block), *to);
        for (std::size_t i = begin; i < begin + per_row; ++i)
          copies.push_back({.block = rows.pages[i], .swap_block = SwapBlockId{index(from.pages[i])}});
      }
    }
    release_rows(table);
    table.groups = std::move(back);
    table.swapped = false;
    each_place(table, [&](std::size_t group, std::int32_t i) { hold_row(table, group, i); });
  }
  return true;
}

}  // namespace pagoda
