#include "kv_cache/paged_inspection.h"

#include <unordered_map>

#include "base/check.h"

namespace pagoda {

KvTable PagedInspection::pages_of(SequenceId id, std::size_t group) const {
  const BlockTable& table = parts_.sequences.at(id).table;
  CHECK(!table.swapped);
  return parts_.tables.pages_of(table, group);
}

KvUsage PagedInspection::usage() const {
  const std::int64_t size = parts_.config.block_size;
  // A shared row counts once, at the level of its fullest holder. A slot is a token's place in one page.
  const SlotAccount::Total total = parts_.tables.total(parts_.sequences.each_table());
  KvUsage out;
  out.total_slots = parts_.supply.num_pages() * size;
  out.blocks_in_use = parts_.supply.num_pages() - parts_.supply.num_free();
  out.cached_slots = parts_.pool.num_cached() * size;
  out.blocks_without_sharing = total.held;
  out.token_slots = total.computed;
  out.reserved_slots = total.known - total.computed;
  out.allocated_slots = out.blocks_in_use * size;
  out.internal_slots = out.allocated_slots - total.known;
  return out;
}

void PagedInspection::check_invariants() const {
  parts_.pool.check_invariants();
  if (parts_.states) parts_.states->check_invariants();
  std::unordered_map<std::int32_t, std::int32_t> references;  // by page
  if (parts_.tiers) {
    parts_.tiers->check_invariants();
    parts_.tiers->count_references(references);
  }
  std::vector<const BlockTable*> swapped;
  for (const auto& [id, sequence] : parts_.sequences.all()) {
    const BlockTable& table = sequence.table;
    parts_.tables.check(table);
    CHECK(sequence.snapshots.empty() || !table.swapped);
    for (const StateSnapshot& snapshot : sequence.snapshots) {
      std::vector<BlockId> pages;
      parts_.pool.append_pages(snapshot.row, pages);
      for (const BlockId page : pages) ++references[index(page)];
    }
    if (table.swapped) swapped.push_back(&table);
    for (std::size_t group = 0; !table.swapped && group < parts_.groups().size(); ++group)
      for (const BlockId page : parts_.tables.pages_of(table, group).blocks) ++references[index(page)];
  }
  CHECK(swapped.empty() || parts_.swap_space);
  if (parts_.swap_space) parts_.swap_space->check_invariants(swapped);
  std::int64_t in_use = 0;
  for (std::int32_t i = 0; i < parts_.pool.num_blocks(); ++i) {
    const auto it = references.find(i);
    CHECK(parts_.pool.ref_count(BlockId{i}) == (it == references.end() ? 0 : it->second));
    in_use += it != references.end() ? 1 : 0;
  }
  CHECK(in_use + parts_.pool.num_free() == parts_.pool.num_blocks());
  CHECK(parts_.promises.set_aside() <= parts_.supply.num_free());
  const KvUsage counted = usage();
  CHECK(parts_.tables.walk(parts_.sequences.each_table()) ==
        (SlotAccount::Total{.computed = counted.token_slots,
                            .known = counted.token_slots + counted.reserved_slots,
                            .held = counted.blocks_without_sharing}));
  for (const PinnedPrefixes::Prefix& prefix : parts_.pinned.all())
    CHECK(parts_.sequences.at(prefix.holder).table.num_computed ==
          static_cast<std::int32_t>(prefix.tokens.size()));
}

}  // namespace pagoda
