#include "kv_cache/paged_sharing.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace pagoda {

std::int32_t PagedSharing::shareable(SequenceId id, std::int32_t num_tokens) const {
  const KvSequence& sequence = parts_.sequences.at(id);
  std::int32_t whole = num_tokens / parts_.config.block_size * parts_.config.block_size;
  if (parts_.states) whole = parts_.caches_prefixes() ? parts_.states->shareable(sequence, num_tokens) : 0;
  for (std::size_t group = 0; group < parts_.groups().size(); ++group) {
    if (parts_.groups()[group].first_visible_row(whole) < sequence.table.groups[group].first) return 0;
  }
  return whole;
}

void PagedSharing::keep_shareable(SequenceId id, std::int32_t num_tokens) {
  parts_.cache.add_anchor(parts_.sequences.at(id), num_tokens);
}

void PagedSharing::fork(SequenceId parent, SequenceId child) {
  KvSequence& from = parts_.sequences.at(parent);
  from.forked = true;
  KvSequence& copy = parts_.sequences.insert(child);
  copy = from;
  copy.snapshots.clear();
  copy.latest_state.reset();
  parts_.tables.share_all(copy.table);
}

std::int32_t PagedSharing::fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) {
  KvSequence& copy = parts_.sequences.insert(child);
  const KvSequence& from = parts_.sequences.at(parent);
  const std::int32_t whole = shareable(parent, num_tokens), num_full = whole / parts_.config.block_size;
  CHECK(whole <= from.table.num_computed);
  for (std::size_t group = 0; group < parts_.groups().size(); ++group) {
    if (parts_.groups()[group].is_state() && whole > 0) {  // each fork has its own copy
      parts_.tables.append_row(copy.table, group,
                               parts_.index.acquire(from.hashes[as_size(num_full - 1)], group, from.claim));
      continue;
    }
    parts_.tables.share_rows(from.table.groups[group], group, parts_.groups()[group].first_visible_row(whole),
                             num_full, copy.table);
  }
  parts_.tables.set_lengths(copy.table, whole, whole);
  copy.chain = copy.root = from.root;
  copy.claim = from.claim;
  copy.variant = from.variant;
  copy.adapter = from.adapter;
  return whole;
}

std::int64_t PagedSharing::blocks_owned_by(std::span<const SequenceId> ids) const {
  std::unordered_map<std::int32_t, std::pair<std::int32_t, std::size_t>> held;  // by row: count, group
  for (const BlockTable* table : parts_.sequences.tables_of(ids)) {
    each_row(*table, [&](std::size_t group, std::int32_t i) {
      auto& [times, of] = held[index(parts_.tables.row(*table, group, i))];
      ++times;
      of = group;
    });
  }
  std::int64_t pages = 0;
  for (const auto& [block, entry] : held) {
    if (parts_.pool.ref_count(BlockId{block}) == entry.first)
      pages += parts_.groups()[entry.second].pages_per_row;
  }
  return pages;
}

bool PagedSharing::pin_prefix(SequenceId parent, SequenceId holder, std::span<const TokenId> tokens) {
  CHECK(parts_.sequences.at(parent).table.num_computed == static_cast<std::int32_t>(tokens.size()));
  fork(parent, holder);
  parts_.pinned.add(holder, tokens, parts_.sequences.at(parent).variant);
  count_pinned();
  return true;
}

void PagedSharing::unpin_prefix(SequenceId holder) {
  parts_.pinned.remove(holder);
  parts_.free(holder);
  count_pinned();
}

void PagedSharing::count_pinned() {
  std::unordered_set<std::int32_t> blocks;  // prefixes may share blocks
  for (const PinnedPrefixes::Prefix& prefix : parts_.pinned.all()) {
    const BlockTable& table = parts_.sequences.at(prefix.holder).table;
    for (std::size_t group = 0; group < parts_.groups().size(); ++group)
      for (const BlockId block : parts_.tables.pages_of(table, group).blocks) blocks.insert(index(block));
  }
  num_pinned_.store(static_cast<std::int64_t>(blocks.size()), std::memory_order_release);
}

TierErase PagedSharing::erase_from_cache(const CacheOwner& owner) {
  parts_.pool.withdraw_all(owner);
  TierErase left{.keys = {}, .owner = owner};
  if (parts_.tiers) left.keys = parts_.tiers->erase(owner);
  return left;
}

void PagedSharing::clear_prefix_cache() {
  if (parts_.tiers) parts_.tiers->clear();  // first, since it publishes arrived rows
  parts_.pool.clear_cache();
  if (parts_.states) parts_.states->clear();
}

}  // namespace pagoda
