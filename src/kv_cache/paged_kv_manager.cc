#include "kv_cache/paged_kv_manager.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace pagoda {

PagedKvManager::PagedKvManager(PagedKvConfig config)
    : KvManager(KvGeometry(config.block_size, config.groups.value_or(one_full_group(config.block_size)),
                           config.whole_prompts),
                *this, *this, *this),
      config_(std::move(config)),
      groups_(geometry().groups()),
      sees_all_(geometry().first_sees_all()),
      has_windows_(geometry().has_windows()),
      has_states_(geometry().has_states()),
      has_anchors_(has_windows_ || has_states_),
      pool_(config_.num_created > 0 ? config_.num_created : config_.num_blocks),
      hasher_(config_.model_id) {
  CHECK(config_.block_size >= 1);
  CHECK(config_.num_swap_blocks >= 0 && config_.num_swap_blocks <= config_.num_blocks);
  CHECK(!has_states_ ||
        (groups_.back().is_state() && std::ranges::count_if(groups_, &KvGroup::is_state) == 1));
  if (has_states_)
    pool_.set_on_forget(static_cast<std::int32_t>(state_group()),
                        [this](BlockId row) { shelf_.remove(row); });
  for (const KvGroup& group : groups_) {
    CHECK(group.tokens_per_row == config_.block_size && group.pages_per_row >= 1);
    CHECK((group.kind == KvKind::window) == (group.window > 0));
    CHECK(group.kind != KvKind::full || &group == &groups_.front());
  }
  if (sees_all_) pool_.set_dependent_groups(static_cast<std::int32_t>(groups_.size()) - 1);
  if (config_.num_swap_blocks > 0) swap_pool_.emplace(config_.num_swap_blocks);
  if (config_.verify_hits) content_.resize(num(config_.num_blocks) * num(config_.block_size));
}

PagedKvManager::Table& PagedKvManager::at(SequenceId id) {
  const auto it = tables_.find(id);
  CHECK(it != tables_.end());
  return it->second;
}

const PagedKvManager::Table& PagedKvManager::at(SequenceId id) const {
  const auto it = tables_.find(id);
  CHECK(it != tables_.end());
  return it->second;
}

PagedKvManager::Table& PagedKvManager::insert(SequenceId id) {
  const auto [it, fresh] = tables_.try_emplace(id);
  CHECK(fresh);
  it->second.groups.resize(groups_.size());
  return it->second;
}

std::int32_t PagedKvManager::blocks_for(std::int64_t num_tokens) const {
  return static_cast<std::int32_t>((num_tokens + config_.block_size - 1) / config_.block_size);
}

// A state's one row is written to by whatever token comes next.
std::int32_t PagedKvManager::next_row(const Table& table, std::size_t group) const {
  return groups_[group].is_state() ? 0 : table.num_computed / config_.block_size;
}

std::int32_t PagedKvManager::add_sequence(SequenceId id, std::span<const TokenId> tokens,
                                          std::string_view salt, bool allow_cache) {
  Table& table = insert(id);
  if (caches_prefixes()) {
    table.chain = table.root = hasher_.root(salt);
    // What follows a prompt may be another template's choice: its last tokens may be others next time.
    const std::int32_t behind = std::min(config_.block_size, 16);
    if (has_anchors_)
      add_anchor(table, (static_cast<std::int32_t>(tokens.size()) - behind) / config_.block_size);
  }
  if (!allow_cache || tokens.empty() || groups_.empty()) return 0;
  if (caches_prefixes()) map_cached(table, tokens);
  map_prefix(table, tokens);
  if (config_.enable_prefix_caching) {
    table.queried = static_cast<std::int64_t>(tokens.size());
    table.hit = table.num_computed;
  }
  return table.num_computed;
}

std::span<const BlockId> PagedKvManager::valid_pages(const Table& table, std::size_t group) const {
  const Rows& rows = table.groups[group];
  return std::span(rows.pages).subspan(num(rows.first) * num(groups_[group].pages_per_row));
}

void PagedKvManager::new_row(SequenceId, std::size_t group, std::int32_t, std::vector<BlockId>& pages) {
  CHECK(pool_.allocate_row(groups_[group].pages_per_row, pages));
}

PagedKvManager::Rows PagedKvManager::rows_from(std::size_t group, std::int32_t first) const {
  Rows rows{.pages = {}, .first = first, .end = first};
  rows.pages.resize(num(first) * num(groups_[group].pages_per_row), kNoPage);
  return rows;
}

void PagedKvManager::share_rows(const Rows& from, std::size_t group, std::int32_t first, std::int32_t end,
                                Table& table) {
  Rows& to = table.groups[group];
  const auto per_row = static_cast<std::ptrdiff_t>(groups_[group].pages_per_row);
  CHECK(first == end || (from.first <= first && end <= from.end));
  to = rows_from(group, first);
  for (; to.end < end; ++to.end) {
    const auto begin = from.pages.begin() + to.end * per_row;
    pool_.share(*begin);
    to.pages.insert(to.pages.end(), begin, begin + per_row);
    hold_row(table, group, to.end);
  }
}

bool PagedKvManager::must_copy(const Table& table, std::size_t group, std::int32_t num_tokens) const {
  const std::int32_t next = next_row(table, group);
  if (num_tokens <= table.num_computed || next >= table.groups[group].end) return false;
  const BlockId at = row(table, group, next);
  return pool_.ref_count(at) > 1 || pool_.is_published(at);
}

std::int64_t PagedKvManager::pages_to_grow(const Table& table, std::size_t group,
                                           std::int32_t num_tokens) const {
  const std::int64_t wanted = groups_[group].rows_for(num_tokens);
  const std::int64_t rows = std::max<std::int64_t>(0, wanted - table.groups[group].end) +
                            (must_copy(table, group, num_tokens) ? 1 : 0);
  return rows * groups_[group].pages_per_row;
}

std::int64_t PagedKvManager::pages_to_grow(const Table& table, std::int32_t num_tokens) const {
  std::int64_t pages = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    pages += pages_to_grow(table, group, num_tokens);
  return pages;
}

std::int64_t PagedKvManager::blocks_to_grow(SequenceId id, std::int32_t num_tokens) const {
  return pages_to_grow(at(id), num_tokens);
}

bool PagedKvManager::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  Table& table = at(id);
  CHECK(!table.swapped);
  if (!can_grow(table, num_tokens) || pages_to_grow(table, num_tokens) > pool_.num_free()) return false;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    Rows& rows = table.groups[group];
    if (must_copy(table, group, num_tokens)) {
      // Only the last row of a fork can be both shared and unfinished, so this is one copy at most.
      const std::int32_t next = next_row(table, group);
      const bool begun =
          groups_[group].is_state() ? table.num_computed > 0 : table.num_computed % config_.block_size != 0;
      CHECK(next + 1 == rows.end);
      const BlockId old = row(table, group, next);
      Rows fresh = rows;
      fresh.pages.resize(num(next) * num(groups_[group].pages_per_row));
      fresh.end = next;
      new_row(id, group, fresh.end++, fresh.pages);
      table.copying |= begun;
      for (std::size_t i = num(next) * num(groups_[group].pages_per_row); i < rows.pages.size(); ++i) {
        if (begun) copies.push_back({.from = rows.pages[i], .to = fresh.pages[i]});
      }
      leave_row(table, group, next);
      pool_.release_one(old);
      rows = std::move(fresh);
      hold_row(table, group, next);
    }
    while (rows.end < rows_for(group, num_tokens)) {
      new_row(id, group, rows.end, rows.pages);
      hold_row(table, group, rows.end++);
    }
  }
  set_lengths(table, table.num_computed, std::max(table.num_tokens, num_tokens));
  table.more.resize(groups_.empty() ? 0 : groups_.size() - 1);
  for (std::size_t group = 1; group < groups_.size(); ++group)
    table.more[group - 1] = {.blocks = valid_pages(table, group), .first_row = table.groups[group].first};
  stats_.queries += std::exchange(table.queried, 0);
  stats_.hits += std::exchange(table.hit, 0);
  return true;
}

void PagedKvManager::computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) {
  Table& table = at(id);
  CHECK(num_computed >= table.num_computed && num_computed <= table.num_tokens);
  CHECK(static_cast<std::size_t>(num_computed) <= tokens.size());
  set_lengths(table, num_computed, table.num_tokens);
  if (caches_prefixes() && !groups_.empty()) publish_full_rows(table, tokens);
  table.copying = false;
  if (has_states_ && caches_prefixes()) {
    publish_snapshots(table);
    table.tail.assign(tokens.begin() + table.num_hashed * config_.block_size, tokens.begin() + num_computed);
  }
  if (has_windows_) give_back(table);
  if (num_computed >= table.num_promised) end_promise(id, table);
}

void PagedKvManager::give_back(Table& table) {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    Rows& rows = table.groups[group];
    const std::int32_t kept = std::min(groups_[group].first_kept_row(table.num_computed), rows.end);
    // Last ones first, as everywhere.
    for (std::int32_t i = kept - 1; i >= rows.first; --i) {
      leave_row(table, group, i);
      pool_.release_one(row(table, group, i));
    }
    rows.first = std::max(rows.first, kept);
  }
}

void PagedKvManager::shrink(SequenceId id, std::int32_t num_tokens) {
  Table& table = at(id);
  CHECK(!table.swapped && num_tokens >= table.num_computed);
  num_tokens = std::min(table.num_tokens, num_tokens);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    Rows& rows = table.groups[group];
    while (rows.end > rows_for(group, num_tokens)) {
      leave_row(table, group, --rows.end);
      pool_.release_one(row(table, group, rows.end));
      rows.pages.resize(num(rows.end) * num(groups_[group].pages_per_row));
    }
  }
  set_lengths(table, table.num_computed, num_tokens);
}

void PagedKvManager::fork(SequenceId parent, SequenceId child) {
  insert(child);  // first: it may move the parent
  Table& copy = at(child);
  at(parent).forked = true;
  copy = at(parent);
  copy.num_promised = 0;
  copy.snapshots.clear();
  copy.latest_state.reset();
  each_place(copy, [&](std::size_t group, std::int32_t i) {
    pool_.share(row(copy, group, i));
    hold_row(copy, group, i);
  });
}

std::int32_t PagedKvManager::shareable(SequenceId id, std::int32_t num_tokens) const {
  const Table& table = at(id);
  const std::int32_t whole = has_states_ ? shareable_with_state(table, num_tokens)
                                         : num_tokens / config_.block_size * config_.block_size;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (groups_[group].first_visible_row(whole) < table.groups[group].first) return 0;
  }
  return whole;
}

std::int32_t PagedKvManager::fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) {
  Table& copy = insert(child);
  const Table& from = at(parent);
  const std::int32_t whole = shareable(parent, num_tokens), num_full = whole / config_.block_size;
  CHECK(whole <= from.num_computed);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (groups_[group].is_state() && whole > 0) {  // a copy of its own
      Rows& rows = copy.groups[group];
      const auto state =
          pool_.acquire_cached(from.hashes[num(num_full - 1)], static_cast<std::int32_t>(group));
      CHECK(state);
      pool_.append_pages(*state, rows.pages);
      rows.end = 1;
      hold_row(copy, group, 0);
      continue;
    }
    share_rows(from.groups[group], group, groups_[group].first_visible_row(whole), num_full, copy);
  }
  set_lengths(copy, whole, whole);
  copy.chain = copy.root = from.root;
  return copy.num_computed;
}

void PagedKvManager::release_rows(Table& table) {
  if (!table.swapped)
    each_place(table, [&](std::size_t group, std::int32_t i) { leave_row(table, group, i); });
  if (table.swapped)
    each_row(table, [this](std::size_t, BlockId block) { swap_pool_->release_one(block); });
  else if (caches_prefixes() && has_anchors_)
    release_in_segments(table);
  else
    each_row(table, [this](std::size_t, BlockId block) { pool_.release_one(block); });
}

void PagedKvManager::free(SequenceId id) {
  const auto it = tables_.find(id);
  CHECK(it != tables_.end());
  end_promise(id, it->second);
  drop_snapshots(it->second);
  release_rows(it->second);
  tables_.erase(it);
}

KvTables PagedKvManager::tables(SequenceId id) const {
  const Table& table = at(id);
  CHECK(!table.swapped);
  if (groups_.empty()) return {};
  return {.blocks = valid_pages(table, 0), .first_row = table.groups.front().first, .more = table.more};
}

KvTable PagedKvManager::pages_of(SequenceId id, std::size_t group) const {
  const Table& table = at(id);
  CHECK(!table.swapped);
  return {.blocks = valid_pages(table, group), .first_row = table.groups[group].first};
}

std::int64_t PagedKvManager::blocks_owned_by(std::span<const SequenceId> ids) const {
  std::unordered_map<std::int32_t, std::pair<std::int32_t, std::size_t>> held;  // by row: times, group
  for (const SequenceId id : ids) {
    each_row(at(id), [&](std::size_t group, BlockId block) {
      auto& [times, of] = held[index(block)];
      ++times;
      of = group;
    });
  }
  std::int64_t pages = 0;
  for (const auto& [block, entry] : held) {
    if (pool_.ref_count(BlockId{block}) == entry.first) pages += groups_[entry.second].pages_per_row;
  }
  return pages;
}

void PagedKvManager::clear_prefix_cache() {
  pool_.clear_cache();
  shelf_.clear();
  tails_.clear();
}

void PagedKvManager::check_invariants() const {
  pool_.check_invariants();
  std::unordered_map<std::int32_t, std::int32_t> references, swap_references;  // by page
  for (const auto& [id, table] : tables_) {
    CHECK(table.num_computed <= table.num_tokens);
    CHECK(!table.swapped || swap_pool_);
    CHECK((table.num_promised > 0) == promised_.contains(id));
    CHECK(table.snapshots.empty() || !table.swapped);
    for (const Snapshot& snapshot : table.snapshots) {
      std::vector<BlockId> pages;
      pool_.append_pages(snapshot.row, pages);
      for (const BlockId page : pages) ++references[index(page)];
    }
    auto& counts = table.swapped ? swap_references : references;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      const Rows& rows = table.groups[group];
      CHECK(rows.end == rows_for(group, table.num_tokens) && rows.first <= rows.end);
      CHECK(rows.pages.size() == num(rows.end) * num(groups_[group].pages_per_row));
      // What the next position sees is there, and no more than is kept for it.
      CHECK(rows.first <= groups_[group].first_visible_row(table.num_computed));
      CHECK(rows.first >= std::min(groups_[group].first_kept_row(table.num_computed), rows.end));
      for (const BlockId block : valid_pages(table, group)) ++counts[index(block)];
    }
  }
  if (swap_pool_) {
    swap_pool_->check_invariants();
    for (const auto& [block, count] : swap_references) CHECK(swap_pool_->ref_count(BlockId{block}) == count);
    CHECK(num_free_swap_blocks() + static_cast<std::int64_t>(swap_references.size()) == num_swap_blocks());
  }
  std::int64_t in_use = 0;
  for (std::int32_t i = 0; i < pool_.num_blocks(); ++i) {
    const auto it = references.find(i);
    CHECK(pool_.ref_count(BlockId{i}) == (it == references.end() ? 0 : it->second));
    in_use += it != references.end() ? 1 : 0;
  }
  CHECK(in_use + pool_.num_free() == pool_.num_blocks());
  CHECK(set_aside() <= num_free_blocks());
  const SlotAccount::Total walked = walk_slots();
  const KvUsage told = usage();
  CHECK(told.token_slots == walked.computed && told.token_slots + told.reserved_slots == walked.known &&
        told.blocks_without_sharing == walked.held);
  for (const Prefix& prefix : prefixes_)
    CHECK(at(prefix.holder).num_computed == static_cast<std::int32_t>(prefix.tokens.size()));
}

}  // namespace pagoda
