#include "kv_cache/swap_space.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

// Takes rows of `to` for the rows of `from` up to `end`; calls copy(old page, new page) for each page that
// moves.
template <class Copy>
void move_rows(const GroupRows& from, std::int32_t end, std::int32_t pages_per_row, BlockPool& to,
               SwapSpace::Moved& moved, GroupRows& rows, Copy copy) {
  const std::size_t per_row = as_size(pages_per_row);
  for (; rows.end < end; ++rows.end) {
    const std::size_t begin = as_size(rows.end) * per_row;
    const BlockId block = from.pages[begin];
    if (const auto it = moved.find(index(block)); it != moved.end()) {
      to.share(it->second);
      to.append_pages(it->second, rows.pages);
      continue;
    }
    const auto row = to.allocate_row(pages_per_row, rows.pages);
    CHECK(row);
    moved.emplace(index(block), *row);
    for (std::size_t i = begin; i < begin + per_row; ++i) copy(from.pages[i], rows.pages[i]);
  }
}

SwapBlockId swap_block(BlockId block) { return SwapBlockId{index(block)}; }

}  // namespace

SwapCost SwapSpace::cost(const KvGeometry& geometry, const BlockTables& tables,
                         std::span<const BlockTable* const> sequences) {
  SwapCost cost;
  std::int64_t num_full = 0;
  std::unordered_set<std::int32_t> seen;
  for (const BlockTable* table : sequences) {
    cost.tokens += table->num_computed;
    for (std::size_t group = 0; group < geometry.groups().size(); ++group) {
      for (std::int32_t i = table->groups[group].first; i < tables.rows_for(group, table->num_computed);
           ++i) {
        if (!seen.insert(index(tables.row(*table, group, i))).second) continue;
        cost.pages += geometry.groups()[group].pages_per_row;
        num_full += group == 0 ? 1 : 0;
      }
    }
  }
  // When recomputed, the sequences share again what they share now.
  if (geometry.first_sees_all()) cost.tokens = std::min(cost.tokens, num_full * geometry.block_size());
  return cost;
}

std::vector<GroupRows> SwapSpace::store(const BlockTable& table, Moved& moved,
                                        std::vector<SwapCopy>& copies) {
  std::vector<GroupRows> stored;
  for (std::size_t group = 0; group < geometry_.groups().size(); ++group) {
    const GroupRows& from = table.groups[group];
    stored.push_back(tables_.rows_from(group, from.first));
    move_rows(from, tables_.rows_for(group, table.num_computed), geometry_.groups()[group].pages_per_row,
              pool_, moved, stored.back(), [&](BlockId old, BlockId page) {
                copies.push_back({.block = old, .swap_block = swap_block(page)});
              });
  }
  return stored;
}

std::vector<GroupRows> SwapSpace::load(const BlockTable& table, BlockPool& pool, Moved& moved,
                                       std::vector<SwapCopy>& copies) const {
  std::vector<GroupRows> loaded;
  for (std::size_t group = 0; group < geometry_.groups().size(); ++group) {
    const GroupRows& from = table.groups[group];
    loaded.push_back(tables_.rows_from(group, from.first));
    move_rows(
        from, from.end, geometry_.groups()[group].pages_per_row, pool, moved, loaded.back(),
        [&](BlockId old, BlockId page) { copies.push_back({.block = page, .swap_block = swap_block(old)}); });
  }
  return loaded;
}

void SwapSpace::release(const BlockTable& table) {
  each_row(table,
           [&](std::size_t group, std::int32_t i) { pool_.release_one(tables_.row(table, group, i)); });
}

void SwapSpace::check_invariants(std::span<const BlockTable* const> swapped) const {
  pool_.check_invariants();
  std::unordered_map<std::int32_t, std::int32_t> references;
  for (const BlockTable* table : swapped)
    for (std::size_t group = 0; group < geometry_.groups().size(); ++group)
      for (const BlockId page : tables_.pages_of(*table, group).blocks) ++references[index(page)];
  for (const auto& [page, count] : references) CHECK(pool_.ref_count(BlockId{page}) == count);
  CHECK(num_free() + std::ssize(references) == num_blocks());
}

}  // namespace pagoda
