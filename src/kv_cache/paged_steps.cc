#include "kv_cache/paged_steps.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {

std::int32_t PagedSteps::add_sequence(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                                      bool allow_cache) {
  KvSequence& sequence = parts_.sequences.insert(id);
  sequence.variant = use.variant;
  if (parts_.caches_prefixes()) parts_.cache.begin(sequence, tokens, use);
  if (!allow_cache || tokens.empty() || parts_.groups().empty()) return 0;
  if (parts_.caches_prefixes()) parts_.cache.map(sequence, tokens);
  map_pinned(sequence, tokens);
  if (parts_.caches_prefixes()) {
    sequence.queried = static_cast<std::int64_t>(tokens.size());
    if (parts_.tiers) sequence.brought = parts_.tiers->brought(id, sequence.table.num_computed);
    sequence.hit = sequence.table.num_computed - sequence.brought;
  }
  return sequence.table.num_computed;
}

// Maps a pinned prefix if it is longer than the cached prefix.
void PagedSteps::map_pinned(KvSequence& sequence, std::span<const TokenId> tokens) {
  BlockTable& table = sequence.table;
  const auto found = parts_.pinned.longest(
      tokens, sequence.variant, table.num_computed,
      parts_.geometry.has_states() ? PinnedPrefixes::Use::whole : PinnedPrefixes::Use::any_part);
  if (!found) return;
  parts_.tables.release_all(table);
  const BlockTable& holder = parts_.sequences.at(found->holder).table;
  for (std::size_t group = 0; group < parts_.groups().size(); ++group) {
    const std::int32_t end = parts_.tables.rows_for(group, found->num_tokens);
    const std::int32_t first = std::min(parts_.groups()[group].first_visible_row(found->num_tokens), end);
    parts_.tables.share_rows(holder.groups[group], group, first, end, table);
  }
  parts_.tables.set_lengths(table, found->num_tokens, found->num_tokens);
  if (parts_.caches_prefixes()) parts_.cache.map_shared(sequence, tokens);
}

bool PagedSteps::promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) {
  return parts_.promises.make(parts_.sequences.at(id).table, num_tokens, chunk, parts_.supply.num_free());
}

std::int64_t PagedSteps::pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const {
  return parts_.promises.needed(parts_.sequences.at(id).table, num_tokens, chunk);
}

std::int32_t PagedSteps::most_tokens(SequenceId id, std::int32_t num_tokens) const {
  return parts_.promises.most_tokens(parts_.sequences.at(id).table, num_tokens, parts_.supply.num_free());
}

std::int64_t PagedSteps::blocks_to_grow(SequenceId id, std::int32_t num_tokens) const {
  return parts_.tables.pages_to_grow(parts_.sequences.at(id).table, num_tokens);
}

void PagedSteps::take_row(std::size_t group, std::vector<BlockId>& pages) {
  CHECK(parts_.pool.allocate_row(parts_.groups()[group].pages_per_row, pages));
}

bool PagedSteps::can_grow(SequenceId id, std::int32_t num_tokens) const {
  return parts_.promises.can_grow(parts_.sequences.at(id).table, num_tokens, parts_.supply.num_free());
}

bool PagedSteps::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  const auto take = [this](std::size_t group, std::int32_t, std::vector<BlockId>& pages) {
    take_row(group, pages);
  };
  return grow(id, num_tokens, take, copies);
}

bool PagedSteps::grow(SequenceId id, std::int32_t num_tokens, const BlockTables::NewRow& new_row,
                      std::vector<BlockCopy>& copies) {
  KvSequence& sequence = parts_.sequences.at(id);
  BlockTable& table = sequence.table;
  CHECK(!table.swapped);
  const std::int64_t pages = parts_.tables.pages_to_grow(table, num_tokens);
  if (pages > parts_.pool.num_free() ||
      (pages > 0 && !parts_.promises.can_grow(table, num_tokens, parts_.supply.num_free())))
    return false;
  sequence.copying |= parts_.tables.grow(table, num_tokens, new_row, copies);
  parts_.stats.queries += std::exchange(sequence.queried, 0);
  parts_.stats.hits += std::exchange(sequence.hit, 0);
  parts_.stats.external_hits += std::exchange(sequence.brought, 0);
  return true;
}

void PagedSteps::copy_states(SequenceId id, std::int32_t place, std::int32_t num_tokens,
                             std::vector<StateCopy>& copies) {
  if (!parts_.states || !parts_.caches_prefixes()) return;
  const auto may_take = [this](std::int64_t pages) {
    return parts_.num_available() >= pages && parts_.supply.make_available(pages);
  };
  parts_.states->copy_states(parts_.sequences.at(id), place, num_tokens, may_take, copies);
}

void PagedSteps::computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) {
  KvSequence& sequence = parts_.sequences.at(id);
  BlockTable& table = sequence.table;
  CHECK(num_computed >= table.num_computed && num_computed <= table.num_tokens);
  CHECK(static_cast<std::size_t>(num_computed) <= tokens.size());
  parts_.tables.set_lengths(table, num_computed, table.num_tokens);
  if (parts_.caches_prefixes() && !parts_.groups().empty()) parts_.cache.publish(sequence, tokens);
  sequence.copying = false;
  if (parts_.geometry.has_windows()) parts_.tables.give_back(table);
  parts_.promises.computed(table);
}

void PagedSteps::shrink(SequenceId id, std::int32_t num_tokens) {
  BlockTable& table = parts_.sequences.at(id).table;
  CHECK(!table.swapped && num_tokens >= table.num_computed);
  parts_.tables.shrink(table, num_tokens);
}

KvTables PagedSteps::tables(SequenceId id) const {
  const BlockTable& table = parts_.sequences.at(id).table;
  CHECK(!table.swapped);
  if (parts_.groups().empty()) return {};
  const KvTable first = parts_.tables.pages_of(table, 0);
  return {.blocks = first.blocks, .first_row = first.first_row, .more = table.more};
}

}  // namespace pagoda
