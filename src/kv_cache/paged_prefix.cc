// Prefixes of PagedKvManager: the cache of what finished sequences leave behind, and pinned prefixes: whole
// rows by reference, the last one copied by whoever writes.
//
// A hit of L tokens takes the rows that see everything of [0, L), and of each window the rows that the next
// position sees. The latter would be gone by the time a conversation goes on, or be worth nothing in the
// middle of a text; so they are published at anchors only: the last row border before a prompt's end, a
// sequence's end, and where a hit could have gone further than its windows allowed (a branch), or others wait
// for it.
#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "kv_cache/paged_kv_manager.h"

namespace pagoda {

BlockHash PagedKvManager::hash_block(const BlockHash& parent, std::span<const TokenId> tokens) {
  BlockHash hash = hasher_.next(parent, tokens);
  if (config_.hash_bits < 64)
    hash = {{hash.words[0] & ((std::uint64_t{1} << config_.hash_bits) - 1), 0, 0, 0}};
  return hash;
}

bool PagedKvManager::content_matches(BlockId block, std::span<const TokenId> tokens) const {
  if (!config_.verify_hits) return true;
  return std::ranges::equal(
      tokens, std::span(content_).subspan(num(index(block)) * num(config_.block_size), tokens.size()));
}

bool PagedKvManager::publish(BlockId block, const BlockHash& hash, std::size_t group,
                             std::span<const TokenId> content) {
  if (!pool_.publish(block, hash, static_cast<std::int32_t>(group))) return false;
  if (config_.verify_hits) {
    const std::size_t begin = num(index(block)) * num(config_.block_size);
    std::ranges::copy(content, content_.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return true;
}

void PagedKvManager::add_anchor(Table& table, std::int32_t rows) const {
  if (rows <= 0) return;
  const auto place = std::ranges::lower_bound(table.anchors, rows);
  if (place == table.anchors.end() || *place != rows) table.anchors.insert(place, rows);
}

void PagedKvManager::keep_shareable(SequenceId id, std::int32_t num_tokens) {
  if (has_anchors_) add_anchor(at(id), num_tokens / config_.block_size);
}

void PagedKvManager::map_cached(Table& table, std::span<const TokenId> tokens) {
  const auto block_size = num(config_.block_size);
  const auto content = [&](std::int32_t i) { return tokens.subspan(num(i) * block_size, block_size); };
  const auto find = [&](const BlockHash& hash, std::int32_t i, std::size_t group) -> std::optional<BlockId> {
    const auto block = pool_.find_cached(hash, static_cast<std::int32_t>(group));
    return block && content_matches(*block, content(i)) ? block : std::nullopt;
  };
  // The last token must be computed, for its logits; and a row is shared whole or not at all.
  const auto most = static_cast<std::int32_t>((tokens.size() - 1) / block_size);
  std::vector<BlockHash> hashes;
  std::vector<std::int32_t> run(groups_.size(), 0);  // rows in a row that end here, of each group
  std::int32_t agreed = 0, num_full = 0;
  BlockHash chain = table.chain;
  for (std::int32_t i = 0; i < most; ++i) {
    chain = hash_block(chain, content(i));
    if (sees_all_ && !find(chain, i, 0)) break;
    hashes.push_back(chain);
    num_full = i + 1;
    bool all = true;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].kind == KvKind::full) continue;
      if (groups_[group].is_state()) {
        all &= find(chain, i, group).has_value();
        continue;
      }
      run[group] = find(chain, i, group) ? run[group] + 1 : 0;
      all &= run[group] >= num_full - groups_[group].first_visible_row(num_full * config_.block_size);
    }
    if (all) agreed = num_full;
  }
  // A state that is kept behind full rows reaches further.
  std::optional<Tail> tail;
  for (std::int32_t rows = num_full; has_states_ && !tail && rows >= agreed; --rows) {
    tail = find_tail(rows > 0 ? hashes[num(rows - 1)] : table.root, rows, hashes,
                     tokens.subspan(num(rows) * block_size));
    if (tail) agreed = rows;
  }
  table.num_tokens = table.num_computed = agreed * config_.block_size + (tail ? tail->count : 0);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    Rows& rows = table.groups[group];
    const auto acquire = [&](const BlockHash& hash) {
      const auto block = pool_.acquire_cached(hash, static_cast<std::int32_t>(group));
      CHECK(block);
      pool_.append_pages(*block, rows.pages);
      hold_row(table, group, rows.end++);
      return *block;
    };
    if (groups_[group].is_state()) {
      if (table.num_computed == 0) continue;
      table.origin = tail ? tail->hash : hashes[num(agreed - 1)];
      shelf_.use(acquire(*table.origin));
      continue;
    }
    rows = rows_from(group, groups_[group].first_visible_row(table.num_computed));
    while (rows.end < agreed) acquire(hashes[num(rows.end)]);
    if (tail) acquire(tail->hash);
  }
  hashes.resize(num(agreed));
  if (agreed > 0) table.chain = hashes.back();
  table.num_hashed = agreed;
  if (!has_anchors_) return;
  table.tail.assign(tokens.begin() + agreed * config_.block_size, tokens.begin() + table.num_computed);
  table.hashes = std::move(hashes);
  if (config_.verify_hits) table.content.assign(tokens.begin(), tokens.begin() + agreed * config_.block_size);
  add_anchor(table, agreed);
  if (sees_all_) add_anchor(table, num_full);  // a branch
}

void PagedKvManager::publish_full_rows(Table& table, std::span<const TokenId> tokens) {
  const auto block_size = num(config_.block_size);
  while ((table.num_hashed + 1) * config_.block_size <= table.num_computed) {
    const std::int32_t i = table.num_hashed++;
    const auto content = tokens.subspan(num(i) * block_size, block_size);
    const BlockHash parent = std::exchange(table.chain, hash_block(table.chain, content));
    // Without a group that tells how far a text is known, the windows' own rows have to.
    for (std::size_t group = 0; group < (sees_all_ ? 1 : groups_.size()); ++group) {
      if (groups_[group].is_state() || i < table.groups[group].first) continue;
      if (publish(row(table, group, i), table.chain, group, content) && cache_observer_ != nullptr)
        tell_stored(table, i, parent, content);
    }
    if (!has_anchors_) continue;
    table.hashes.push_back(table.chain);
    if (config_.verify_hits) table.content.insert(table.content.end(), content.begin(), content.end());
    if (std::ranges::binary_search(table.anchors, table.num_hashed)) publish_anchor(table, table.num_hashed);
  }
}

void PagedKvManager::set_cache_observer(CacheObserver* observer) {
  cache_observer_ = sees_all_ ? observer : nullptr;
  pool_.set_cache_observer(cache_observer_);
}

void PagedKvManager::tell_stored(const Table& table, std::int32_t row, const BlockHash& parent,
                                 std::span<const TokenId> content) {
  // Of full rows alone: what a sequence's end leaves beside its state is not told, and goes untold.
  pool_.tell_when_forgotten(this->row(table, 0, row));
  const bool salted = row == 0 && !(table.root == hasher_.root({}));
  cache_observer_->on_stored(table.chain, row == 0 ? nullptr : &parent, salted ? &table.root : nullptr,
                             content);
}

// What a position behind so many rows sees of each window.
void PagedKvManager::publish_anchor(Table& table, std::int32_t rows) {
  if (!sees_all_) return;  // all of them are
  for (std::size_t group = 1; group < groups_.size(); ++group) {
    if (groups_[group].is_state()) continue;
    const std::int32_t first = groups_[group].first_visible_row(rows * config_.block_size);
    for (std::int32_t i = std::max(first, table.groups[group].first); i < rows; ++i) {
      const auto full = pool_.find_cached(table.hashes[num(i)]);
      if (!full) return;  // of no use without
      std::span<const TokenId> content;
      if (config_.verify_hits) {
        content = std::span(table.content).subspan(num(i * config_.block_size), num(config_.block_size));
        if (!content_matches(*full, content)) return;
      }
      publish(row(table, group, i), table.hashes[num(i)], group, content);
    }
  }
}

// So that what is evicted first is of use to nobody: from the end back to the start, an anchor's window rows
// before the full rows since the anchor before it. Those that were given back on the way count as used until
// now.
void PagedKvManager::release_in_segments(Table& table) {
  if (has_states_) publish_end(table);
  if (!sees_all_) {
    each_row(table, [this](std::size_t, BlockId block) { pool_.release_one(block); });
    return;
  }
  publish_anchor(table, table.num_hashed);
  for (std::size_t group = 1; group < groups_.size(); ++group) {
    for (std::int32_t i = table.groups[group].end - 1; i >= table.groups[group].first; --i)
      pool_.release_one(row(table, group, i));
  }
  auto anchor = table.anchors.rbegin();
  for (std::int32_t i = table.groups.front().end - 1; i >= 0; --i) {
    for (; anchor != table.anchors.rend() && *anchor > i; ++anchor) {
      if (*anchor > table.num_hashed) continue;
      for (std::size_t group = 1; group < groups_.size(); ++group) {
        const std::int32_t first = groups_[group].is_state()
                                       ? *anchor - 1
                                       : groups_[group].first_visible_row(*anchor * config_.block_size);
        for (std::int32_t at = *anchor - 1; at >= first; --at) {
          const auto block = pool_.find_cached(table.hashes[num(at)], static_cast<std::int32_t>(group));
          if (block) pool_.renew(*block);
        }
      }
    }
    pool_.release_one(row(table, 0, i));
  }
}

bool PagedKvManager::pin_prefix(SequenceId parent, SequenceId holder, std::span<const TokenId> tokens) {
  CHECK(at(parent).num_computed == static_cast<std::int32_t>(tokens.size()));
  fork(parent, holder);
  prefixes_.push_back({.holder = holder, .tokens = {tokens.begin(), tokens.end()}});
  count_pinned();
  return true;
}

void PagedKvManager::unpin_prefix(SequenceId holder) {
  CHECK(std::erase_if(prefixes_, [&](const Prefix& prefix) { return prefix.holder == holder; }) == 1);
  free(holder);
  count_pinned();
}

void PagedKvManager::count_pinned() {
  std::unordered_set<std::int32_t> blocks;  // prefixes may share
  for (const Prefix& prefix : prefixes_) {
    for (std::size_t group = 0; group < groups_.size(); ++group)
      for (const BlockId block : valid_pages(at(prefix.holder), group)) blocks.insert(index(block));
  }
  num_pinned_.store(static_cast<std::int64_t>(blocks.size()), std::memory_order_release);
}

void PagedKvManager::map_prefix(Table& table, std::span<const TokenId> tokens) {
  const Prefix* best = nullptr;
  std::int32_t num_taken = table.num_computed;
  for (const Prefix& prefix : prefixes_) {
    // The last token must be computed, for its logits.
    const auto taken = static_cast<std::int32_t>(std::min(prefix.tokens.size(), tokens.size() - 1));
    if (taken <= num_taken || prefix.tokens.size() > tokens.size()) continue;
    if (has_states_ && num(taken) != prefix.tokens.size()) continue;  // its state is at its end alone
    if (!std::ranges::equal(prefix.tokens, tokens.first(prefix.tokens.size()))) continue;
    best = &prefix;
    num_taken = taken;
  }
  if (best == nullptr) return;
  each_place(table, [&](std::size_t group, std::int32_t i) {
    leave_row(table, group, i);
    pool_.release_one(row(table, group, i));
  });
  const Table& holder = at(best->holder);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const std::int32_t end = rows_for(group, num_taken);
    share_rows(holder.groups[group], group, std::min(groups_[group].first_visible_row(num_taken), end), end,
               table);
  }
  set_lengths(table, num_taken, num_taken);
  if (!caches_prefixes()) return;
  const auto block_size = num(config_.block_size);
  for (; (table.num_hashed + 1) * config_.block_size <= num_taken; ++table.num_hashed) {
    const std::size_t begin = num(table.num_hashed) * block_size;
    table.chain = hash_block(table.chain, tokens.subspan(begin, block_size));
    if (has_anchors_) table.hashes.push_back(table.chain);
  }
  table.tail.assign(tokens.begin() + table.num_hashed * config_.block_size, tokens.begin() + num_taken);
  if (config_.verify_hits && has_anchors_)
    table.content.assign(tokens.begin(), tokens.begin() + table.num_hashed * config_.block_size);
}

}  // namespace pagoda
