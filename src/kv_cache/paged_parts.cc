#include "kv_cache/paged_parts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

std::int32_t num_dependent_groups(const KvGeometry& geometry) {
  return geometry.first_sees_all() ? static_cast<std::int32_t>(geometry.groups().size()) - 1 : 0;
}

}  // namespace

PagedParts::PagedParts(PagedKvConfig from) : PagedParts(from, from.num_blocks, nullptr) {}

PagedParts::PagedParts(PagedKvConfig from, std::int32_t num_created, PageSupply::MayCreate may_create)
    : config(std::move(from)),
      geometry(config.block_size, config.groups.value_or(one_full_group(config.block_size)),
               config.whole_prompts),
      pool(num_created, num_dependent_groups(geometry), config.eviction),
      supply(pool, config.num_blocks, std::move(may_create)),
      tables(geometry, pool),
      index({.model_id = config.model_id,
             .block_size = config.block_size,
             .num_blocks = config.num_blocks,
             .hash_bits = config.hash_bits,
             .verify_hits = config.verify_hits || config.tiers},
            pool),
      cache(
          geometry, tables, index,
          geometry.has_states() ? &states.emplace(geometry, tables, index, pool, config.num_blocks) : nullptr,
          pool),
      promises(geometry, tables, pool),
      sequences(groups().size()) {
  CHECK(config.block_size >= 1);
  CHECK(config.num_swap_blocks >= 0 && config.num_swap_blocks <= config.num_blocks);
  CHECK(std::ranges::count_if(groups(), &KvGroup::is_state) <= 1);
  for (const KvGroup& group : groups()) {
    CHECK(group.tokens_per_row == config.block_size && group.pages_per_row >= 1);
    CHECK((group.kind == KvKind::window) == (group.window > 0));
    CHECK(group.kind != KvKind::full || &group == &groups().front());
  }
  if (config.tiers && config.enable_prefix_caching && !groups().empty())
    tiers.emplace(geometry, pool, supply, index, cache, promises, stats,
                  config.peers ? KvTiers::Peers::asked : KvTiers::Peers::none);
  if (config.num_swap_blocks > 0) swap_space.emplace(geometry, tables, config.num_swap_blocks);
}

void PagedParts::release_rows(KvSequence& sequence) {
  if (sequence.table.swapped) {
    swap_space->release(sequence.table);
  } else if (caches_prefixes()) {
    tables.leave_all(sequence.table);
    cache.release(sequence);
  } else {
    tables.release_all(sequence.table);
  }
}

void PagedParts::free(SequenceId id) {
  KvSequence& sequence = sequences.at(id);
  promises.end(sequence.table);
  if (states) states->drop_snapshots(sequence);
  release_rows(sequence);
  sequences.erase(id);
}

}  // namespace pagoda
