#include "kv_cache/paged_kv_manager.h"

#include <algorithm>
#include <ranges>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

std::int32_t num_dependent_groups(const KvGeometry& geometry) {
  return geometry.first_sees_all() ? static_cast<std::int32_t>(geometry.groups().size()) - 1 : 0;
}

}  // namespace

PagedKvManager::PagedKvManager(PagedKvConfig config)
    : KvManager(KvGeometry(config.block_size, config.groups.value_or(one_full_group(config.block_size)),
                           config.whole_prompts),
                *this, *this, *this),
      config_(std::move(config)),
      pool_(config_.num_created > 0 ? config_.num_created : config_.num_blocks,
            num_dependent_groups(geometry())),
      tables_(geometry(), pool_),
      index_({.model_id = config_.model_id,
              .block_size = config_.block_size,
              .num_blocks = config_.num_blocks,
              .hash_bits = config_.hash_bits,
              .verify_hits = config_.verify_hits},
             pool_),
      cache_(geometry(), tables_, index_,
             geometry().has_states()
                 ? &states_.emplace(geometry(), tables_, index_, pool_, config_.num_blocks)
                 : nullptr,
             pool_),
      promises_(geometry(), tables_, pool_) {
  CHECK(config_.block_size >= 1);
  CHECK(config_.num_swap_blocks >= 0 && config_.num_swap_blocks <= config_.num_blocks);
  CHECK(std::ranges::count_if(groups(), &KvGroup::is_state) <= 1);
  for (const KvGroup& group : groups()) {
    CHECK(group.tokens_per_row == config_.block_size && group.pages_per_row >= 1);
    CHECK((group.kind == KvKind::window) == (group.window > 0));
    CHECK(group.kind != KvKind::full || &group == &groups().front());
  }
  if (config_.num_swap_blocks > 0) swap_space_.emplace(geometry(), tables_, config_.num_swap_blocks);
}

KvSequence& PagedKvManager::at(SequenceId id) {
  const auto it = sequences_.find(id);
  CHECK(it != sequences_.end());
  return it->second;
}

const KvSequence& PagedKvManager::at(SequenceId id) const {
  const auto it = sequences_.find(id);
  CHECK(it != sequences_.end());
  return it->second;
}

KvSequence& PagedKvManager::insert(SequenceId id) {
  const auto [it, fresh] = sequences_.try_emplace(id);
  CHECK(fresh);
  it->second.table.groups.resize(groups().size());
  return it->second;
}

std::vector<const BlockTable*> PagedKvManager::tables_of(std::span<const SequenceId> ids) const {
  std::vector<const BlockTable*> out;
  for (const SequenceId id : ids) out.push_back(&at(id).table);
  return out;
}

BlockTables::EachTable PagedKvManager::each_table() const {
  return [this](const auto& f) {
    for (const auto& [id, sequence] : sequences_)
      if (!sequence.table.swapped) f(sequence.table);
  };
}

std::int32_t PagedKvManager::add_sequence(SequenceId id, std::span<const TokenId> tokens,
                                          std::string_view salt, bool allow_cache) {
  KvSequence& sequence = insert(id);
  if (caches_prefixes()) cache_.begin(sequence, tokens, salt);
  if (!allow_cache || tokens.empty() || groups().empty()) return 0;
  if (caches_prefixes()) cache_.map(sequence, tokens);
  map_pinned(sequence, tokens);
  if (caches_prefixes()) {
    sequence.queried = static_cast<std::int64_t>(tokens.size());
    sequence.hit = sequence.table.num_computed;
  }
  return sequence.table.num_computed;
}

// Maps a pinned prefix that gives more than the cache has given.
void PagedKvManager::map_pinned(KvSequence& sequence, std::span<const TokenId> tokens) {
  BlockTable& table = sequence.table;
  const auto found =
      pinned_.longest(tokens, table.num_computed,
                      geometry().has_states() ? PinnedPrefixes::Use::whole : PinnedPrefixes::Use::any_part);
  if (!found) return;
  tables_.release_all(table);
  const BlockTable& holder = at(found->holder).table;
  for (std::size_t group = 0; group < groups().size(); ++group) {
    const std::int32_t end = tables_.rows_for(group, found->num_tokens);
    const std::int32_t first = std::min(groups()[group].first_visible_row(found->num_tokens), end);
    tables_.share_rows(holder.groups[group], group, first, end, table);
  }
  tables_.set_lengths(table, found->num_tokens, found->num_tokens);
  if (caches_prefixes()) cache_.map_shared(sequence, tokens);
}

bool PagedKvManager::promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) {
  return promises_.make(at(id).table, num_tokens, chunk, num_free_blocks());
}

std::int64_t PagedKvManager::pages_to_promise(SequenceId id, std::int32_t num_tokens,
                                              std::int32_t chunk) const {
  return promises_.needed(at(id).table, num_tokens, chunk);
}

std::int32_t PagedKvManager::most_tokens(SequenceId id, std::int32_t num_tokens) {
  return promises_.most_tokens(at(id).table, num_tokens, num_free_blocks());
}

std::int64_t PagedKvManager::blocks_to_grow(SequenceId id, std::int32_t num_tokens) const {
  return tables_.pages_to_grow(at(id).table, num_tokens);
}

void PagedKvManager::new_row(SequenceId, std::size_t group, std::int32_t, std::vector<BlockId>& pages) {
  CHECK(pool_.allocate_row(groups()[group].pages_per_row, pages));
}

bool PagedKvManager::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  KvSequence& sequence = at(id);
  BlockTable& table = sequence.table;
  CHECK(!table.swapped);
  const std::int64_t pages = tables_.pages_to_grow(table, num_tokens);
  if (pages > pool_.num_free() || (pages > 0 && !promises_.can_grow(table, num_tokens, num_free_blocks())))
    return false;
  const auto take = [this, id](std::size_t group, std::int32_t at, std::vector<BlockId>& pages) {
    new_row(id, group, at, pages);
  };
  sequence.copying |= tables_.grow(table, num_tokens, take, copies);
  stats_.queries += std::exchange(sequence.queried, 0);
  stats_.hits += std::exchange(sequence.hit, 0);
  return true;
}

void PagedKvManager::copy_states(SequenceId id, std::int32_t place, std::int32_t num_tokens,
                                 std::vector<StateCopy>& copies) {
  if (!states_ || !caches_prefixes()) return;
  const auto may_take = [this](std::int64_t pages) {
    return num_available_blocks() >= pages && make_available(pages);
  };
  states_->copy_states(at(id), place, num_tokens, may_take, copies);
}

void PagedKvManager::computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) {
  KvSequence& sequence = at(id);
  BlockTable& table = sequence.table;
  CHECK(num_computed >= table.num_computed && num_computed <= table.num_tokens);
  CHECK(static_cast<std::size_t>(num_computed) <= tokens.size());
  tables_.set_lengths(table, num_computed, table.num_tokens);
  if (caches_prefixes() && !groups().empty()) cache_.publish(sequence, tokens);
  sequence.copying = false;
  if (geometry().has_windows()) tables_.give_back(table);
  promises_.computed(table);
}

void PagedKvManager::shrink(SequenceId id, std::int32_t num_tokens) {
  BlockTable& table = at(id).table;
  CHECK(!table.swapped && num_tokens >= table.num_computed);
  tables_.shrink(table, num_tokens);
}

void PagedKvManager::fork(SequenceId parent, SequenceId child) {
  insert(child);  // first: it may move the parent's entry
  KvSequence& copy = at(child);
  at(parent).forked = true;
  copy = at(parent);
  copy.snapshots.clear();
  copy.latest_state.reset();
  tables_.share_all(copy.table);
}

std::int32_t PagedKvManager::shareable(SequenceId id, std::int32_t num_tokens) const {
  const KvSequence& sequence = at(id);
  std::int32_t whole = num_tokens / config_.block_size * config_.block_size;
  if (states_) whole = caches_prefixes() ? states_->shareable(sequence, num_tokens) : 0;
  for (std::size_t group = 0; group < groups().size(); ++group) {
    if (groups()[group].first_visible_row(whole) < sequence.table.groups[group].first) return 0;
  }
  return whole;
}

void PagedKvManager::keep_shareable(SequenceId id, std::int32_t num_tokens) {
  cache_.add_anchor(at(id), num_tokens);
}

std::int32_t PagedKvManager::fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) {
  KvSequence& copy = insert(child);
  const KvSequence& from = at(parent);
  const std::int32_t whole = shareable(parent, num_tokens), num_full = whole / config_.block_size;
  CHECK(whole <= from.table.num_computed);
  for (std::size_t group = 0; group < groups().size(); ++group) {
    if (groups()[group].is_state() && whole > 0) {  // a copy of its own
      tables_.append_row(copy.table, group, index_.acquire(from.hashes[as_size(num_full - 1)], group));
      continue;
    }
    tables_.share_rows(from.table.groups[group], group, groups()[group].first_visible_row(whole), num_full,
                       copy.table);
  }
  tables_.set_lengths(copy.table, whole, whole);
  copy.chain = copy.root = from.root;
  return whole;
}

void PagedKvManager::release_rows(KvSequence& sequence) {
  if (sequence.table.swapped) {
    swap_space_->release(sequence.table);
  } else if (caches_prefixes()) {
    tables_.leave_all(sequence.table);
    cache_.release(sequence);
  } else {
    tables_.release_all(sequence.table);
  }
}

void PagedKvManager::free(SequenceId id) {
  const auto it = sequences_.find(id);
  CHECK(it != sequences_.end());
  promises_.end(it->second.table);
  if (states_) states_->drop_snapshots(it->second);
  release_rows(it->second);
  sequences_.erase(it);
}

KvTables PagedKvManager::tables(SequenceId id) const {
  const BlockTable& table = at(id).table;
  CHECK(!table.swapped);
  if (groups().empty()) return {};
  const KvTable first = tables_.pages_of(table, 0);
  return {.blocks = first.blocks, .first_row = first.first_row, .more = table.more};
}

KvTable PagedKvManager::pages_of(SequenceId id, std::size_t group) const {
  const BlockTable& table = at(id).table;
  CHECK(!table.swapped);
  return tables_.pages_of(table, group);
}

std::int64_t PagedKvManager::blocks_owned_by(std::span<const SequenceId> ids) const {
  std::unordered_map<std::int32_t, std::pair<std::int32_t, std::size_t>> held;  // by row: times, group
  for (const BlockTable* table : tables_of(ids)) {
    each_row(*table, [&](std::size_t group, std::int32_t i) {
      auto& [times, of] = held[index(tables_.row(*table, group, i))];
      ++times;
      of = group;
    });
  }
  std::int64_t pages = 0;
  for (const auto& [block, entry] : held) {
    if (pool_.ref_count(BlockId{block}) == entry.first) pages += groups()[entry.second].pages_per_row;
  }
  return pages;
}

bool PagedKvManager::pin_prefix(SequenceId parent, SequenceId holder, std::span<const TokenId> tokens) {
  CHECK(at(parent).table.num_computed == static_cast<std::int32_t>(tokens.size()));
  fork(parent, holder);
  pinned_.add(holder, tokens);
  count_pinned();
  return true;
}

void PagedKvManager::unpin_prefix(SequenceId holder) {
  pinned_.remove(holder);
  free(holder);
  count_pinned();
}

void PagedKvManager::count_pinned() {
  std::unordered_set<std::int32_t> blocks;  // prefixes may share
  for (const PinnedPrefixes::Prefix& prefix : pinned_.all()) {
    for (std::size_t group = 0; group < groups().size(); ++group)
      for (const BlockId block : pages_of(prefix.holder, group).blocks) blocks.insert(index(block));
  }
  num_pinned_.store(static_cast<std::int64_t>(blocks.size()), std::memory_order_release);
}

SwapCost PagedKvManager::swap_cost(std::span<const SequenceId> ids) const {
  return SwapSpace::cost(geometry(), tables_, tables_of(ids));
}

bool PagedKvManager::swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (!swap_space_ || swap_space_->num_free() < swap_cost(ids).pages) return false;
  SwapSpace::Moved moved;
  for (const SequenceId id : ids) {
    KvSequence& sequence = at(id);
    BlockTable& table = sequence.table;
    CHECK(!table.swapped);
    promises_.end(table);
    if (states_) states_->drop_snapshots(sequence);
    std::vector<GroupRows> stored = swap_space_->store(table, moved, copies);
    // Published rows can be found in the pool until they are evicted; the sequence has its own copy.
    release_rows(sequence);
    table.groups = std::move(stored);
    table.num_tokens = table.num_computed;
    table.swapped = true;
  }
  return true;
}

bool PagedKvManager::swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (const std::int64_t pages = swap_cost(ids).pages;
      num_available_blocks() < pages || pool_.num_free() < pages)
    return false;
  SwapSpace::Moved moved;
  for (const SequenceId id : ids) {
    KvSequence& sequence = at(id);
    BlockTable& table = sequence.table;
    CHECK(table.swapped);
    std::vector<GroupRows> loaded = swap_space_->load(table, pool_, moved, copies);
    release_rows(sequence);
    table.groups = std::move(loaded);
    table.swapped = false;
    tables_.hold_all(table);
  }
  return true;
}

KvUsage PagedKvManager::usage() const {
  const std::int64_t size = config_.block_size;
  // A shared row counts once, as full as its fullest holder has it. A slot is a token's place in one page.
  const SlotAccount::Total total = tables_.total(each_table());
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

void PagedKvManager::clear_prefix_cache() {
  pool_.clear_cache();
  if (states_) states_->clear();
}

void PagedKvManager::set_cache_observer(CacheObserver* observer) { cache_.set_observer(observer); }

void PagedKvManager::check_invariants() const {
  pool_.check_invariants();
  if (states_) states_->check_invariants();
  std::unordered_map<std::int32_t, std::int32_t> references;  // by page
  std::vector<const BlockTable*> swapped;
  for (const auto& [id, sequence] : sequences_) {
    const BlockTable& table = sequence.table;
    tables_.check(table);
    CHECK(sequence.snapshots.empty() || !table.swapped);
    for (const StateSnapshot& snapshot : sequence.snapshots) {
      std::vector<BlockId> pages;
      pool_.append_pages(snapshot.row, pages);
      for (const BlockId page : pages) ++references[index(page)];
    }
    if (table.swapped) swapped.push_back(&table);
    for (std::size_t group = 0; !table.swapped && group < groups().size(); ++group)
      for (const BlockId page : tables_.pages_of(table, group).blocks) ++references[index(page)];
  }
  CHECK(swapped.empty() || swap_space_);
  if (swap_space_) swap_space_->check_invariants(swapped);
  std::int64_t in_use = 0;
  for (std::int32_t i = 0; i < pool_.num_blocks(); ++i) {
    const auto it = references.find(i);
    CHECK(pool_.ref_count(BlockId{i}) == (it == references.end() ? 0 : it->second));
    in_use += it != references.end() ? 1 : 0;
  }
  CHECK(in_use + pool_.num_free() == pool_.num_blocks());
  CHECK(promises_.set_aside() <= num_free_blocks());
  const KvUsage counted = usage();
  CHECK(tables_.walk(each_table()) ==
        (SlotAccount::Total{.computed = counted.token_slots,
                            .known = counted.token_slots + counted.reserved_slots,
                            .held = counted.blocks_without_sharing}));
  for (const PinnedPrefixes::Prefix& prefix : pinned_.all())
    CHECK(at(prefix.holder).table.num_computed == static_cast<std::int32_t>(prefix.tokens.size()));
}

}  // namespace pagoda
