// States of PagedKvManager in the prefix cache.
//
// A state is worth nothing but at its own length. It is kept at anchors: at row borders (the last one that is
// 16 tokens before a prompt's end, a branch, where others wait) as a copy that a step makes in passing, and
// at a sequence's end, at any length, where its own row simply stays. What stands behind the last full row
// there, a *tail*, has a hash of its own: under it lie the row that it fills in part, and the state.
//
//     full rows    h1 ------- h2 ------- h3 ------- tail of 5 tokens: next(h3, tail)
//     states                  copy                  own
//
// Whoever goes on from published rows that are not full, or from a state, copies them with the first token.
#include <algorithm>

#include "base/check.h"
#include "kv_cache/paged_kv_manager.h"

namespace pagoda {

namespace {
constexpr std::size_t kMostTails = 8;  // behind the same rows: the latest are known
}  // namespace

void PagedKvManager::copy_states(SequenceId id, std::int32_t place, std::int32_t num_tokens,
                                 std::vector<StateCopy>& copies) {
  if (!has_states_ || !caches_prefixes()) return;
  Table& table = at(id);
  const std::size_t group = state_group();
  const std::int32_t pages = groups_[group].pages_per_row;
  for (const std::int32_t rows : table.anchors) {
    const std::int32_t position = rows * config_.block_size;
    if (position <= table.num_computed || position > num_tokens) continue;
    if (num_available_blocks() < pages || !make_available(pages)) return;  // a hit less, some time
    std::vector<BlockId> copy;
    table.snapshots.push_back({rows, *pool_.allocate_row(pages, copy)});
    for (std::int32_t page = 0; page < pages; ++page) {
      const BlockId at = copy[num(page)];
      StateCopy* const last = page > 0 ? &copies.back() : nullptr;
      if (last != nullptr && index(at) == index(last->page) + last->count)
        ++last->count;
      else
        copies.push_back({.sequence = place,
                          .position = position,
                          .group = static_cast<std::int32_t>(group),
                          .first_page = page,
                          .page = at});
    }
  }
}

void PagedKvManager::drop_snapshots(Table& table) {
  for (const Snapshot& snapshot : table.snapshots) pool_.release_one(snapshot.row);
  table.snapshots.clear();
}

// The full row before it, without which it is of no use.
bool PagedKvManager::ends_in_cached_row(const Table& table, std::int32_t rows) const {
  if (rows == 0 || !sees_all_) return true;
  const auto full = pool_.find_cached(table.hashes[num(rows - 1)]);
  return full && (!config_.verify_hits || content_matches(*full, content_of_row(table, rows - 1)));
}

std::span<const TokenId> PagedKvManager::content_of_row(const Table& table, std::int32_t row) const {
  if (!config_.verify_hits) return {};
  return std::span(table.content).subspan(num(row * config_.block_size), num(config_.block_size));
}

void PagedKvManager::publish_state(Table& table, BlockId row, const BlockHash& hash,
                                   std::span<const TokenId> content) {
  const std::size_t group = state_group();
  if (!publish(row, hash, group, content)) return;
  if (const auto from =
          table.origin ? pool_.find_cached(*table.origin, static_cast<std::int32_t>(group)) : std::nullopt)
    shelf_.leave(*from);
  shelf_.put(row);
  if (table.latest_state) shelf_.pair(*table.latest_state, row);
  table.latest_state = row;
  const std::int64_t budget = std::max<std::int64_t>(1, num_blocks() / 4 / groups_[group].pages_per_row);
  while (shelf_.size() > budget) pool_.withdraw(*shelf_.first_to_go());  // which takes it off the shelf
}

void PagedKvManager::publish_snapshots(Table& table) {
  std::erase_if(table.snapshots, [&](const Snapshot& snapshot) {
    if (snapshot.rows > table.num_hashed) return false;
    if (ends_in_cached_row(table, snapshot.rows))
      publish_state(table, snapshot.row, table.hashes[num(snapshot.rows - 1)],
                    content_of_row(table, snapshot.rows - 1));
    pool_.release_one(snapshot.row);
    return true;
  });
}

// What a sequence leaves at its end: its own state, and the row that is filled in part. Not what others
// share: they would have to copy it before they write on. Nor what one of several samples leaves, or a beam.
void PagedKvManager::publish_end(Table& table) {
  const std::size_t group = state_group();
  const std::int32_t rows = table.num_hashed;
  const auto rest = static_cast<std::int32_t>(table.tail.size());
  const auto own = [&](std::size_t of, std::int32_t at) { return pool_.ref_count(row(table, of, at)) == 1; };
  if (table.copying || table.forked || table.num_computed == 0 ||
      rows * config_.block_size + rest != table.num_computed || !own(group, 0) ||
      !ends_in_cached_row(table, rows))
    return;
  if (rest == 0) {
    if (rows > 0)
      publish_state(table, row(table, group, 0), table.hashes[num(rows - 1)],
                    content_of_row(table, rows - 1));
    return;
  }
  for (std::size_t other = 0; other < group; ++other)
    if (!own(other, rows)) return;
  const BlockHash hash = hash_block(table.chain, table.tail);
  for (std::size_t other = 0; other < group; ++other)
    publish(row(table, other, rows), hash, other, table.tail);
  if (sees_all_ && !pool_.find_cached(hash)) return;
  publish_state(table, row(table, group, 0), hash, table.tail);
  std::vector<Tail>& tails = tails_[table.chain];
  std::erase_if(tails, [&](const Tail& tail) { return tail.hash == hash; });
  if (tails.size() == kMostTails) tails.erase(tails.begin());
  tails.push_back({hash, rest});
  if (tails_.size() <= 2 * num(config_.num_blocks)) return;
  for (auto it = tails_.begin(); it != tails_.end();) {
    forget_dead_tails(it->second);
    it = it->second.empty() ? tails_.erase(it) : std::next(it);
  }
}

void PagedKvManager::forget_dead_tails(std::vector<Tail>& tails) {
  std::erase_if(tails, [&](const Tail& tail) {
    return !pool_.find_cached(tail.hash, static_cast<std::int32_t>(state_group()));
  });
}

// The longest tail behind these rows with which `rest` begins, less its last token, of which all is there.
std::optional<PagedKvManager::Tail> PagedKvManager::find_tail(const BlockHash& chain, std::int32_t rows,
                                                              std::span<const BlockHash> hashes,
                                                              std::span<const TokenId> rest) {
  const auto known = tails_.find(chain);
  if (known == tails_.end()) return std::nullopt;
  forget_dead_tails(known->second);
  std::optional<Tail> best;
  for (const Tail& tail : known->second) {
    if (num(tail.count) >= rest.size() || (best && best->count >= tail.count)) continue;
    const std::span<const TokenId> tokens = rest.first(num(tail.count));
    if (hash_block(chain, tokens) != tail.hash) continue;
    bool all = true;
    for (std::size_t group = 0; group < groups_.size() && all; ++group) {
      const auto number = static_cast<std::int32_t>(group);
      const auto end = pool_.find_cached(tail.hash, number);
      all = end && content_matches(*end, tokens);
      if (groups_[group].kind != KvKind::window) continue;
      const std::int32_t first = groups_[group].first_visible_row(rows * config_.block_size + tail.count);
      for (std::int32_t i = first; i < rows && all; ++i)
        all = pool_.find_cached(hashes[num(i)], number).has_value();
    }
    if (all) best = tail;
  }
  if (known->second.empty()) tails_.erase(known);
  return best;
}

// The largest number of tokens of `id`, no more than `num_tokens`, at which its state is kept, or will be.
std::int32_t PagedKvManager::shareable_with_state(const Table& table, std::int32_t num_tokens) const {
  if (!caches_prefixes()) return 0;
  std::int32_t rows = num_tokens / config_.block_size;
  if (rows * config_.block_size > table.num_computed) return rows * config_.block_size;  // keep_shareable()
  for (rows = std::min(rows, table.num_hashed); rows > 0; --rows) {
    if (state_at(table, rows) && ends_in_cached_row(table, rows)) break;
  }
  return rows * config_.block_size;
}

std::optional<BlockId> PagedKvManager::state_at(const Table& table, std::int32_t rows) const {
  return pool_.find_cached(table.hashes[num(rows - 1)], static_cast<std::int32_t>(state_group()));
}

}  // namespace pagoda
