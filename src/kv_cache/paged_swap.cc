#include "kv_cache/paged_swap.h"

#include <utility>

#include "base/check.h"

namespace pagoda {

SwapCost PagedSwap::swap_cost(std::span<const SequenceId> ids) const {
  return SwapSpace::cost(parts_.geometry, parts_.tables, parts_.sequences.tables_of(ids));
}

bool PagedSwap::swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (!parts_.swap_space || parts_.swap_space->num_free() < swap_cost(ids).pages) return false;
  SwapSpace::Moved moved;
  for (const SequenceId id : ids) {
    KvSequence& sequence = parts_.sequences.at(id);
    BlockTable& table = sequence.table;
    CHECK(!table.swapped);
    parts_.promises.end(table);
    if (parts_.states) parts_.states->drop_snapshots(sequence);
    std::vector<GroupRows> stored = parts_.swap_space->store(table, moved, copies);
    // Published rows can be found in the pool until they are evicted; the sequence has its own copy.
    parts_.release_rows(sequence);
    table.groups = std::move(stored);
    table.num_tokens = table.num_computed;
    table.swapped = true;
  }
  return true;
}

bool PagedSwap::swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  const std::int64_t pages = swap_cost(ids).pages;
  if (!parts_.supply.make_available(pages) || parts_.num_available() < pages) return false;
  SwapSpace::Moved moved;
  for (const SequenceId id : ids) {
    KvSequence& sequence = parts_.sequences.at(id);
    BlockTable& table = sequence.table;
    CHECK(table.swapped);
    std::vector<GroupRows> loaded = parts_.swap_space->load(table, parts_.pool, moved, copies);
    parts_.release_rows(sequence);
    table.groups = std::move(loaded);
    table.swapped = false;
    parts_.tables.hold_all(table);
  }
  return true;
}

}  // namespace pagoda
