// The account of token slots of PagedKvManager: kept up as tables take rows, advance and leave them.
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "kv_cache/paged_kv_manager.h"

namespace pagoda {

RowFill PagedKvManager::fill_of(std::int32_t num_computed, std::int32_t num_tokens, std::size_t group,
                                std::int32_t at) const {
  const std::int32_t size = config_.block_size;
  const auto filled = [&](std::int32_t tokens) {
    if (groups_[group].is_state()) return tokens > 0 ? size : 0;
    return std::clamp(tokens - at * size, 0, size);
  };
  const std::int32_t computed = filled(num_computed);
  return {.computed = computed, .known = std::max(computed, filled(num_tokens))};
}

void PagedKvManager::hold_row(const Table& table, std::size_t group, std::int32_t at) {
  slots_.hold(row(table, group, at), groups_[group].pages_per_row, fill_of(table, group, at));
}

void PagedKvManager::leave_row(const Table& table, std::size_t group, std::int32_t at) {
  slots_.leave(row(table, group, at), fill_of(table, group, at));
}

void PagedKvManager::set_lengths(Table& table, std::int32_t num_computed, std::int32_t num_tokens) {
  const std::int32_t size = config_.block_size;
  const std::int32_t computed_before = std::exchange(table.num_computed, num_computed);
  const std::int32_t tokens_before = std::exchange(table.num_tokens, num_tokens);
  if (computed_before == num_computed && tokens_before == num_tokens) return;
  // Rows before the first change are full before and after; rows behind the last token are empty.
  const auto changed = [](std::int32_t a, std::int32_t b) { return a == b ? INT32_MAX : std::min(a, b); };
  const std::int32_t least =
      std::min(changed(computed_before, num_computed), changed(tokens_before, num_tokens));
  const std::int32_t most = std::max({computed_before, tokens_before, num_computed, num_tokens});
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const Rows& rows = table.groups[group];
    const bool state = groups_[group].is_state();
    const std::int32_t end = state ? rows.end : std::min(rows.end, rows_for(group, most));
    for (std::int32_t i = state ? rows.first : std::max(rows.first, least / size); i < end; ++i)
      slots_.change(row(table, group, i), fill_of(computed_before, tokens_before, group, i),
                    fill_of(table, group, i));
  }
}

KvUsage PagedKvManager::usage() const {
  const std::int64_t size = config_.block_size;
  // A shared row counts once, as full as its fullest holder has it. A slot is a token's place in one page.
  const SlotAccount::Total total = slots_.total([this](BlockId name, const auto& holder) {
    for (const auto& [id, table] : tables_) {
      if (table.swapped) continue;
      each_place(table, [&](std::size_t group, std::int32_t i) {
        if (row(table, group, i) == name) holder(fill_of(table, group, i));
      });
    }
  });
  KvUsage out;
  out.total_slots = num_blocks() * size;
  out.blocks_in_use = num_blocks() - num_free_blocks();
  out.cached_slots = pool_.num_cached() * size;
  out.blocks_without_sharing = total.held;
  out.token_slots = total.computed;
  out.reserved_slots = total.known - total.computed;
  out.allocated_slots = out.blocks_in_use * size;
  out.internal_slots = out.allocated_slots - total.known;
  return out;
}

SlotAccount::Total PagedKvManager::walk_slots() const {
  SlotAccount::Total out;
  std::unordered_map<std::int32_t, std::pair<RowFill, std::int32_t>> fullest;  // by row: and its pages
  for (const auto& [id, table] : tables_) {
    if (table.swapped) continue;
    each_place(table, [&](std::size_t group, std::int32_t i) {
      auto& [most, pages] = fullest[index(row(table, group, i))];
      const RowFill fill = fill_of(table, group, i);
      pages = groups_[group].pages_per_row;
      most = {.computed = std::max(most.computed, fill.computed), .known = std::max(most.known, fill.known)};
      out.held += pages;
    });
  }
  for (const auto& [name, entry] : fullest) {
    out.computed += std::int64_t{entry.second} * entry.first.computed;
    out.known += std::int64_t{entry.second} * entry.first.known;
  }
  return out;
}

}  // namespace pagoda
