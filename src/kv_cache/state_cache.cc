#include "kv_cache/state_cache.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {

StateCache::StateCache(const KvGeometry& geometry, const BlockTables& tables, PrefixIndex& index,
                       BlockPool& pool, std::int32_t num_blocks)
    : geometry_(geometry),
      tables_(tables),
      index_(index),
      pool_(pool),
      budget_(std::max(1, num_blocks / 4 / geometry.groups().back().pages_per_row)),
      max_chains_(2 * as_size(num_blocks)) {
  CHECK(geometry.groups().back().is_state());
  pool_.set_on_forget(static_cast<std::int32_t>(group()), [this](BlockId row) { eviction_.remove(row); });
}

void StateCache::copy_states(KvSequence& sequence, std::int32_t place, std::int32_t num_tokens,
                             const std::function<bool(std::int64_t)>& may_take,
                             std::vector<StateCopy>& copies) {
  const std::int32_t pages = geometry_.groups()[group()].pages_per_row;
  for (const std::int32_t rows : sequence.anchors) {
    const std::int32_t position = rows * geometry_.block_size();
    if (position <= sequence.table.num_computed || position > num_tokens) continue;
    if (!may_take(pages)) return;  // costs at most one later cache hit
    std::vector<BlockId> copy;
    sequence.snapshots.push_back({rows, *pool_.allocate_row(pages, copy)});
    for (std::int32_t page = 0; page < pages; ++page) {
      const BlockId at = copy[as_size(page)];
      StateCopy* const last = page > 0 ? &copies.back() : nullptr;
      if (last != nullptr && index(at) == index(last->page) + last->count)
        ++last->count;
      else
        copies.push_back({.sequence = place,
                          .position = position,
                          .group = static_cast<std::int32_t>(group()),
                          .first_page = page,
                          .page = at});
    }
  }
}

void StateCache::drop_snapshots(KvSequence& sequence) {
  for (const StateSnapshot& snapshot : sequence.snapshots) pool_.release_one(snapshot.row);
  sequence.snapshots.clear();
}

// A state is useless without the full-attention row before it.
bool StateCache::ends_in_cached_row(const KvSequence& sequence, std::int32_t rows) const {
  if (rows == 0 || !geometry_.first_sees_all()) return true;
  return index_.find(sequence.hashes[as_size(rows - 1)], 0, content_of_row(sequence, rows - 1)).has_value();
}

std::span<const TokenId> StateCache::content_of_row(const KvSequence& sequence, std::int32_t row) const {
  if (!index_.verifies()) return {};
  return std::span(sequence.content)
      .subspan(as_size(row * geometry_.block_size()), as_size(geometry_.block_size()));
}

void StateCache::publish_state(KvSequence& sequence, BlockId row, const BlockHash& hash,
                               std::span<const TokenId> content) {
  if (!index_.publish(row, hash, group(), content, sequence.claim)) return;
  if (const auto from = sequence.origin ? index_.find(*sequence.origin, group()) : std::nullopt)
    eviction_.leave(*from);
  eviction_.put(row);
  if (sequence.latest_state) eviction_.pair(*sequence.latest_state, row);
  sequence.latest_state = row;
  keep_budget();
}

void StateCache::publish_arrived(BlockId row, const BlockHash& hash, std::span<const TokenId> content,
                                 const CacheClaim& claim) {
  if (!index_.publish(row, hash, group(), content, claim)) return;
  eviction_.put(row);
  keep_budget();
}

void StateCache::keep_budget() {
  while (eviction_.size() > budget_) pool_.withdraw(*eviction_.next_victim());  // calls eviction_.remove()
}

void StateCache::publish_snapshots(KvSequence& sequence) {
  std::erase_if(sequence.snapshots, [&](const StateSnapshot& snapshot) {
    if (snapshot.rows > sequence.num_hashed) return false;
    if (ends_in_cached_row(sequence, snapshot.rows))
      publish_state(sequence, snapshot.row, sequence.hashes[as_size(snapshot.rows - 1)],
                    content_of_row(sequence, snapshot.rows - 1));
    pool_.release_one(snapshot.row);
    return true;
  });
}

// Shared rows are not published: their other holders would have to copy them before writing. Nor is the end
// of one of several samples or beams published.
void StateCache::publish_end(KvSequence& sequence) {
  const BlockTable& table = sequence.table;
  const std::int32_t rows = sequence.num_hashed;
  const auto rest = static_cast<std::int32_t>(sequence.tail.size());
  const auto own = [&](std::size_t of, std::int32_t at) {
    return pool_.ref_count(tables_.row(table, of, at)) == 1;
  };
  if (sequence.copying || sequence.forked || table.num_computed == 0 ||
      rows * geometry_.block_size() + rest != table.num_computed || !own(group(), 0) ||
      !ends_in_cached_row(sequence, rows))
    return;
  const BlockId state = tables_.row(table, group(), 0);
  if (rest == 0) {
    if (rows > 0)
      publish_state(sequence, state, sequence.hashes[as_size(rows - 1)], content_of_row(sequence, rows - 1));
    return;
  }
  for (std::size_t other = 0; other < group(); ++other)
    if (!own(other, rows)) return;
  const BlockHash hash = index_.next(sequence.chain, sequence.tail);
  for (std::size_t other = 0; other < group(); ++other)
    index_.publish(tables_.row(table, other, rows), hash, other, sequence.tail, sequence.claim);
  if (geometry_.first_sees_all() && !index_.find(hash, 0)) return;
  publish_state(sequence, state, hash, sequence.tail);
  remember_tail(sequence.chain, {.hash = hash, .count = rest});
}

void StateCache::remember_tail(const BlockHash& chain, const Tail& tail) {
  std::vector<Tail>& tails = tails_[chain];
  std::erase_if(tails, [&](const Tail& other) { return other.hash == tail.hash; });
  if (tails.size() == kMaxTails) tails.erase(tails.begin());
  tails.push_back(tail);
  if (tails_.size() <= max_chains_) return;
  for (auto it = tails_.begin(); it != tails_.end();) {
    forget_dead(it->second);
    it = it->second.empty() ? tails_.erase(it) : std::next(it);
  }
}

void StateCache::forget_dead(std::vector<Tail>& tails) const {
  std::erase_if(tails, [&](const Tail& tail) {
    return !index_.find(tail.hash, group()) && !index_.in_tier(tail.hash, group());
  });
}

BlockId StateCache::acquire(const BlockHash& hash, const CacheClaim& claim) {
  const BlockId row = index_.acquire(hash, group(), claim);
  eviction_.use(row);
  return row;
}

std::optional<StateCache::Tail> StateCache::find_tail(const BlockHash& chain, std::int32_t rows,
                                                      std::span<const BlockHash> hashes,
                                                      std::span<const TokenId> rest, PrefixIndex::In in) {
  const auto known = tails_.find(chain);
  if (known == tails_.end()) return std::nullopt;
  forget_dead(known->second);
  std::optional<Tail> best;
  for (const Tail& tail : known->second) {
    if (as_size(tail.count) >= rest.size() || (best && best->count >= tail.count)) continue;
    const std::span<const TokenId> tokens = rest.first(as_size(tail.count));
    if (index_.next(chain, tokens) != tail.hash) continue;
    bool all = true;
    for (std::size_t of = 0; of < geometry_.groups().size() && all; ++of) {
      const KvGroup& kind = geometry_.groups()[of];
      all = index_.has(tail.hash, of, tokens, in);
      if (kind.kind != KvKind::window) continue;
      const std::int32_t first = kind.first_visible_row(rows * geometry_.block_size() + tail.count);
      for (std::int32_t i = first; i < rows && all; ++i)
        all = index_.find(hashes[as_size(i)], of) ||
              (in == PrefixIndex::In::pool_or_tier && index_.in_tier(hashes[as_size(i)], of));
    }
    if (all) best = tail;
  }
  if (known->second.empty()) tails_.erase(known);
  return best;
}

std::int32_t StateCache::shareable(const KvSequence& sequence, std::int32_t num_tokens) const {
  const std::int32_t size = geometry_.block_size();
  std::int32_t rows = num_tokens / size;
  if (rows * size > sequence.table.num_computed) return rows * size;  // an anchor is added for it
  for (rows = std::min(rows, sequence.num_hashed); rows > 0; --rows) {
    if (index_.find(sequence.hashes[as_size(rows - 1)], group()) && ends_in_cached_row(sequence, rows)) break;
  }
  return rows * size;
}

void StateCache::clear() {
  eviction_.clear();
  tails_.clear();
}

void StateCache::check_invariants() const {
  CHECK(eviction_.size() <= budget_);
  for (const auto& [chain, tails] : tails_) CHECK(tails.size() <= kMaxTails);
}

}  // namespace pagoda
