#include "kv_cache/sequence_slots.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

// The same number of rows for each token group.
std::vector<std::int32_t> range_lengths(std::span<const KvGroup> groups, std::int32_t blocks_per_slot) {
  std::vector<std::int32_t> lengths;
  if (groups.empty()) return lengths;
  std::int32_t pages = 0;
  for (const KvGroup& group : groups) pages += group.pages_per_row;
  CHECK(blocks_per_slot % pages == 0);
  for (const KvGroup& group : groups) lengths.push_back(blocks_per_slot / pages * group.pages_per_row);
  return lengths;
}

}  // namespace

SequenceSlots::SequenceSlots(const SlotMapConfig& config, const KvGeometry& geometry,
                             const BlockTables& tables, BlockPool& pool)
    : geometry_(geometry),
      tables_(tables),
      pool_(pool),
      slots_(config, pool, range_lengths(token_groups(geometry.groups()), config.blocks_per_slot)) {}

SequenceSlots::Place& SequenceSlots::at(SequenceId id) {
  const auto it = places_.find(id);
  CHECK(it != places_.end());
  return it->second;
}

std::int32_t SequenceSlots::rows_for(std::int64_t num_tokens) const {
  const std::int32_t size = geometry_.block_size();
  return static_cast<std::int32_t>((num_tokens + size - 1) / size);
}

std::int64_t SequenceSlots::pages_to_show(SequenceId id, const BlockTable& table,
                                          std::int32_t num_tokens) const {
  const bool fresh = !has(id);
  std::int64_t pages = 0;
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    pages += tables_.pages_to_grow(table, group, num_tokens);
    if (fresh) pages += std::ssize(tables_.pages_of(table, group).blocks);
  }
  return pages;
}

bool SequenceSlots::enter(SequenceId id, const BlockTable& table, std::int32_t num_tokens) {
  if (has(id)) return true;
  const std::int32_t rows = rows_for(std::max(num_tokens, table.num_tokens));
  std::vector<RangeNeed> needs;
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    needs.push_back({.first = first_block(table, group),
                     .pages = tables_.pages_of(table, group).blocks,
                     .end = rows * per_row(group)});
  }
  const std::optional<std::int32_t> slot = slots_.acquire(needs);
  if (!slot) return false;
  Place& place = places_[id];
  place.slot = *slot;
  place.tables.resize(num_ranges());
  for (std::size_t group = 0; group < num_ranges(); ++group)
    slots_.leave_front(slots_.range_of(*slot, group), first_block(table, group));
  return true;
}

bool SequenceSlots::take_row(SequenceId id, std::size_t group, std::int32_t row,
                             std::vector<BlockId>& pages) {
  if (group >= num_ranges()) return false;
  const std::int32_t range = slots_.range_of(at(id).slot, group);
  const std::size_t begin = pages.size();
  for (std::int32_t page = 0; page < per_row(group); ++page) {
    const BlockId previous = pages.empty() ? kNoPage : pages.back();
    pages.push_back(*slots_.allocate(range, row * per_row(group) + page, previous));
  }
  pool_.join(std::span(pages).subspan(begin));
  return true;
}

void SequenceSlots::show(SequenceId id, const BlockTable& table, std::int32_t num_tokens,
                         bool has_new_pages) {
  Place& place = at(id);
  const std::int32_t rows = rows_for(table.num_tokens);
  const bool fresh = std::exchange(place.fresh, false);
  if (fresh || has_new_pages) show_growth(place, table, rows);
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    const std::int32_t range = slots_.range_of(place.slot, group), end = rows * per_row(group);
    if (fresh) slots_.show_eagerly(range, end, per_row(group));
    // The next token will need another row, which nothing writes into before.
    if (rows_for(std::int64_t{num_tokens} + 1) > rows) slots_.show_ahead(range, end, per_row(group));
  }
  place.more.clear();
  for (std::size_t group = 1; group < geometry_.groups().size(); ++group) {
    if (group >= num_ranges()) {  // a state's group
      place.more.push_back(tables_.pages_of(table, group));
      continue;
    }
    place.more.push_back({.blocks = std::span<const BlockId>(place.tables[group])
                                        .subspan(static_cast<std::size_t>(first_block(table, group))),
                          .first_row = tables_.pages_of(table, group).first_row});
  }
}

// Maps the changes at the end: a copied last row, and new rows.
void SequenceSlots::show_growth(Place& place, const BlockTable& table, std::int32_t rows) {
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    const std::int32_t range = slots_.range_of(place.slot, group), first = first_block(table, group);
    std::vector<BlockId>& blocks = place.tables[group];
    const auto held = static_cast<std::int32_t>(blocks.size());
    CHECK(rows * per_row(group) <= slots_.length(range));
    const std::int32_t from = std::max(first, held - per_row(group));
    slots_.show(range, from,
                tables_.pages_of(table, group).blocks.subspan(static_cast<std::size_t>(from - first)));
    for (std::int32_t i = held; i < rows * per_row(group); ++i) blocks.push_back(slots_.block_id(range, i));
  }
}

void SequenceSlots::computed(SequenceId id, const BlockTable& table) {
  const Place& place = at(id);
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    if (geometry_.groups()[group].kind == KvKind::window)
      slots_.leave_front(slots_.range_of(place.slot, group), first_block(table, group));
  }
}

void SequenceSlots::shrink(SequenceId id, const BlockTable& table) {
  Place& place = at(id);
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    std::vector<BlockId>& blocks = place.tables[group];
    const auto held = static_cast<std::size_t>(rows_for(table.num_tokens) * per_row(group));
    if (blocks.size() == held) continue;
    blocks.resize(held);
    slots_.shrink(slots_.range_of(place.slot, group), static_cast<std::int32_t>(held));
  }
}

void SequenceSlots::leave(SequenceId id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  slots_.release(place->second.slot);
  places_.erase(place);
}

KvTables SequenceSlots::tables(SequenceId id, const BlockTable& table) const {
  CHECK(!table.swapped);
  const auto place = places_.find(id);
  if (place == places_.end()) return {};
  const KvTable pages = tables_.pages_of(table, 0);
  if (num_ranges() == 0) return {.blocks = pages.blocks};  // only states
  return {.blocks = std::span<const BlockId>(place->second.tables.front())
                        .subspan(static_cast<std::size_t>(first_block(table, 0))),
          .first_row = pages.first_row,
          .more = place->second.more};
}

void SequenceSlots::check_invariants(const KvSequences& sequences) const {
  slots_.check_invariants();
  std::vector<char> taken(static_cast<std::size_t>(slots_.config().num_slots), 0);
  for (const auto& [id, place] : places_) {
    const BlockTable& table = sequences.at(id).table;
    CHECK(!table.swapped);
    CHECK(!taken[static_cast<std::size_t>(place.slot)]);
    taken[static_cast<std::size_t>(place.slot)] = 1;
    for (std::size_t group = 0; group < num_ranges(); ++group) {
      const std::span<const BlockId> pages = tables_.pages_of(table, group).blocks;
      const std::int32_t range = slots_.range_of(place.slot, group), first = first_block(table, group);
      const std::vector<BlockId>& blocks = place.tables[group];
      CHECK(static_cast<std::size_t>(first) + pages.size() == blocks.size());
      for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::int32_t here = first + static_cast<std::int32_t>(i);
        CHECK(blocks[static_cast<std::size_t>(here)] == slots_.block_id(range, here));
        CHECK(slots_.shown(range, here) == pages[i]);
      }
    }
  }
  CHECK(static_cast<std::int32_t>(places_.size()) + slots_.num_idle() == slots_.config().num_slots);
}

}  // namespace pagoda
