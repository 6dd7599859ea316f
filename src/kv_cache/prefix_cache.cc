#include "kv_cache/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {

// `num_rows` rows, and the tail after them, are found for all groups; `hashes` are those of the rows found
// for the first group, which may be more.
struct PrefixCache::Hit {
  std::vector<BlockHash> hashes;
  std::int32_t num_rows = 0;
  std::optional<StateCache::Tail> tail;
};

PrefixCache::PrefixCache(const KvGeometry& geometry, BlockTables& tables, PrefixIndex& index,
                         StateCache* states, BlockPool& pool)
    : geometry_(geometry),
      tables_(tables),
      index_(index),
      states_(states),
      pool_(pool),
      sees_all_(geometry.first_sees_all()),
      has_anchors_(geometry.has_windows() || geometry.has_states()) {}

void PrefixCache::begin(KvSequence& sequence, std::span<const TokenId> prompt, const CacheUse& use) {
  pool_.set_time(use.time);
  sequence.claim = use.claim;
  sequence.adapter = use.adapter;
  sequence.chain = sequence.root = index_.root(use.salt);
  // The chat template determines what follows a prompt: the last tokens may differ in the next turn.
  const std::int32_t behind = std::min(geometry_.block_size(), 16);
  add_anchor(sequence, static_cast<std::int32_t>(prompt.size()) - behind);
}

void PrefixCache::add_anchor(KvSequence& sequence, std::int32_t num_tokens) const {
  if (has_anchors_) add_row_anchor(sequence, num_tokens / geometry_.block_size());
}

void PrefixCache::add_row_anchor(KvSequence& sequence, std::int32_t rows) const {
  if (rows <= 0) return;
  const auto place = std::ranges::lower_bound(sequence.anchors, rows);
  if (place == sequence.anchors.end() || *place != rows) sequence.anchors.insert(place, rows);
}

PrefixCache::Hit PrefixCache::find_rows(const KvSequence& sequence, std::span<const TokenId> tokens,
                                        PrefixIndex::In in) {
  const std::size_t block_size = as_size(geometry_.block_size());
  const std::vector<KvGroup>& groups = geometry_.groups();
  const auto content = [&](std::int32_t i) { return tokens.subspan(as_size(i) * block_size, block_size); };
  // The last token must be computed, for its logits; and a row is shared whole or not at all.
  const auto most = static_cast<std::int32_t>((tokens.size() - 1) / block_size);
  Hit hit;
  std::vector<std::int32_t> run(groups.size(), 0);  // number of adjacent rows of each group that end here
  BlockHash chain = sequence.chain;
  for (std::int32_t i = 0; i < most; ++i) {
    chain = index_.next(chain, content(i));
    if (sees_all_ && !index_.has(chain, 0, content(i), in)) break;
    hit.hashes.push_back(chain);
    const std::int32_t num_full = i + 1;
    bool all = true;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      if (groups[group].kind == KvKind::full) continue;
      const bool found = index_.has(chain, group, content(i), in);
      if (groups[group].is_state()) {
        all &= found;
        continue;
      }
      run[group] = found ? run[group] + 1 : 0;
      all &= run[group] >= num_full - groups[group].first_visible_row(num_full * geometry_.block_size());
    }
    if (all) hit.num_rows = num_full;
  }
  // A state kept after full rows may extend the hit.
  const auto num_full = static_cast<std::int32_t>(hit.hashes.size());
  for (std::int32_t rows = num_full; states_ != nullptr && !hit.tail && rows >= hit.num_rows; --rows) {
    hit.tail = states_->find_tail(rows > 0 ? hit.hashes[as_size(rows - 1)] : sequence.root, rows, hit.hashes,
                                  tokens.subspan(as_size(rows) * block_size), in);
    if (hit.tail) hit.num_rows = rows;
  }
  return hit;
}

PrefixCache::Reach PrefixCache::reach_with_tiers(std::span<const TokenId> tokens, std::string_view salt) {
  KvSequence sequence;
  sequence.chain = sequence.root = index_.root(salt);
  const std::int32_t size = geometry_.block_size();
  const auto length = [&](const Hit& hit) { return hit.num_rows * size + (hit.tail ? hit.tail->count : 0); };
  const Hit hit = find_rows(sequence, tokens, PrefixIndex::In::pool_or_tier);
  Reach out{.rows = {}, .num_tokens = length(hit), .num_in_pool = 0};
  if (out.num_tokens == 0) return out;
  out.num_in_pool = length(find_rows(sequence, tokens, PrefixIndex::In::pool));
  if (out.num_in_pool >= out.num_tokens) return out;
  const auto add = [&](std::size_t group, const BlockHash& hash, std::int32_t first, std::int32_t count) {
    const auto content = tokens.subspan(as_size(first), as_size(count));
    out.rows.push_back({.hash = hash, .group = group, .content = {content.begin(), content.end()}});
  };
  const std::int32_t num_hashed = hit.num_rows * size;
  for (std::size_t group = 0; group < geometry_.groups().size(); ++group) {
    const KvGroup& of = geometry_.groups()[group];
    for (std::int32_t i = of.is_state() ? hit.num_rows : of.first_visible_row(out.num_tokens);
         i < hit.num_rows; ++i) {
      add(group, hit.hashes[as_size(i)], i * size, size);
      if (i > 0) out.rows.back().parent = hit.hashes[as_size(i - 1)];
      if (i == 0 && !salt.empty()) out.rows.back().root = sequence.root;
    }
    if (hit.tail)
      add(group, hit.tail->hash, num_hashed, hit.tail->count);
    else if (of.is_state())
      add(group, hit.hashes[as_size(hit.num_rows - 1)], num_hashed - size, size);
  }
  return out;
}

std::vector<TierKey> PrefixCache::missing_keys(std::span<const TokenId> tokens, std::string_view salt,
                                               std::size_t limit) {
  KvSequence sequence;
  sequence.chain = sequence.root = index_.root(salt);
  const Hit hit = find_rows(sequence, tokens, PrefixIndex::In::pool_or_tier);
  const std::int32_t size = geometry_.block_size();
  const auto most = static_cast<std::int32_t>((tokens.size() - 1) / as_size(size));
  std::vector<TierKey> out;
  BlockHash chain = sequence.chain;
  for (std::int32_t i = 0; i < most; ++i) {
    const auto content = tokens.subspan(as_size(i * size), as_size(size));
    chain = static_cast<std::size_t>(i) < hit.hashes.size() ? hit.hashes[as_size(i)]
                                                            : index_.next(chain, content);
    for (std::size_t group = 0; group < geometry_.groups().size(); ++group) {
      const KvGroup& of = geometry_.groups()[group];
      const std::int32_t first = of.is_state() ? hit.num_rows : of.first_visible_row(hit.num_rows * size);
      if (i < first || index_.has(chain, group, content, PrefixIndex::In::pool_or_tier)) continue;
      if (out.size() == limit) return out;
      out.push_back(PrefixIndex::tier_key(chain, group));
    }
  }
  return out;
}

void PrefixCache::publish_arrived(BlockId row, const Row& of) {
  // Useless without the full-attention row.
  if (sees_all_ && of.group > 0 && !index_.find(of.hash, 0)) return;
  if (geometry_.groups()[of.group].is_state()) {
    states_->publish_arrived(row, of.hash, of.content, of.claim);
    return;
  }
  if (!index_.publish(row, of.hash, of.group, of.content, of.claim) || observer_ == nullptr || of.group > 0 ||
      std::ssize(of.content) < geometry_.block_size())
    return;
  pool_.report_eviction(row);
  observer_->on_stored({.hash = of.hash,
                        .parent = of.parent ? &*of.parent : nullptr,
                        .root = of.root ? &*of.root : nullptr,
                        .tokens = of.content,
                        .adapter = of.adapter.get()});
}

void PrefixCache::take(KvSequence& sequence, const Hit& hit) {
  BlockTable& table = sequence.table;
  table.num_tokens = table.num_computed =
      hit.num_rows * geometry_.block_size() + (hit.tail ? hit.tail->count : 0);
  for (std::size_t group = 0; group < geometry_.groups().size(); ++group) {
    if (geometry_.groups()[group].is_state()) {
      if (table.num_computed == 0) continue;
      sequence.origin = hit.tail ? hit.tail->hash : hit.hashes[as_size(hit.num_rows - 1)];
      tables_.append_row(table, group, states_->acquire(*sequence.origin, sequence.claim));
      continue;
    }
    GroupRows& rows = table.groups[group];
    rows = tables_.rows_from(group, geometry_.groups()[group].first_visible_row(table.num_computed));
    while (rows.end < hit.num_rows)
      tables_.append_row(table, group, index_.acquire(hit.hashes[as_size(rows.end)], group, sequence.claim));
    if (hit.tail) tables_.append_row(table, group, index_.acquire(hit.tail->hash, group, sequence.claim));
  }
}

void PrefixCache::map(KvSequence& sequence, std::span<const TokenId> tokens) {
  Hit hit = find_rows(sequence, tokens, PrefixIndex::In::pool);
  take(sequence, hit);
  const auto num_full = static_cast<std::int32_t>(hit.hashes.size());
  hit.hashes.resize(as_size(hit.num_rows));
  if (hit.num_rows > 0) sequence.chain = hit.hashes.back();
  sequence.num_hashed = hit.num_rows;
  if (!has_anchors_) return;
  const std::int32_t num_hashed = hit.num_rows * geometry_.block_size();
  sequence.tail.assign(tokens.begin() + num_hashed, tokens.begin() + sequence.table.num_computed);
  sequence.hashes = std::move(hit.hashes);
  if (index_.verifies()) sequence.content.assign(tokens.begin(), tokens.begin() + num_hashed);
  add_row_anchor(sequence, hit.num_rows);
  if (sees_all_) add_row_anchor(sequence, num_full);  // a branch
}

void PrefixCache::map_shared(KvSequence& sequence, std::span<const TokenId> tokens) {
  const std::int32_t num_tokens = sequence.table.num_computed;
  const std::size_t block_size = as_size(geometry_.block_size());
  for (; (sequence.num_hashed + 1) * geometry_.block_size() <= num_tokens; ++sequence.num_hashed) {
    const std::size_t begin = as_size(sequence.num_hashed) * block_size;
    sequence.chain = index_.next(sequence.chain, tokens.subspan(begin, block_size));
    if (has_anchors_) sequence.hashes.push_back(sequence.chain);
  }
  const std::int32_t num_hashed = sequence.num_hashed * geometry_.block_size();
  sequence.tail.assign(tokens.begin() + num_hashed, tokens.begin() + num_tokens);
  if (index_.verifies() && has_anchors_) sequence.content.assign(tokens.begin(), tokens.begin() + num_hashed);
}

void PrefixCache::publish(KvSequence& sequence, std::span<const TokenId> tokens) {
  const BlockTable& table = sequence.table;
  const std::size_t block_size = as_size(geometry_.block_size());
  while ((sequence.num_hashed + 1) * geometry_.block_size() <= table.num_computed) {
    const std::int32_t i = sequence.num_hashed++;
    const auto content = tokens.subspan(as_size(i) * block_size, block_size);
    const BlockHash parent = std::exchange(sequence.chain, index_.next(sequence.chain, content));
    // Without a full-attention group to show how much of a text is cached, the windows' own rows must do so.
    for (std::size_t group = 0; group < (sees_all_ ? 1 : geometry_.groups().size()); ++group) {
      if (geometry_.groups()[group].is_state() || i < table.groups[group].first) continue;
      if (index_.publish(tables_.row(table, group, i), sequence.chain, group, content, sequence.claim) &&
          observer_ != nullptr)
        report_stored(sequence, i, parent, content);
    }
    if (!has_anchors_) continue;
    sequence.hashes.push_back(sequence.chain);
    if (index_.verifies()) sequence.content.insert(sequence.content.end(), content.begin(), content.end());
    if (std::ranges::binary_search(sequence.anchors, sequence.num_hashed))
      publish_anchor(sequence, sequence.num_hashed);
  }
  if (states_ == nullptr) return;
  states_->publish_snapshots(sequence);
  sequence.tail.assign(tokens.begin() + sequence.num_hashed * geometry_.block_size(),
                       tokens.begin() + table.num_computed);
}

void PrefixCache::set_observer(CacheObserver* observer) {
  observer_ = sees_all_ ? observer : nullptr;
  pool_.set_cache_observer(observer_);
}

// Only full rows are reported, not the partial row that a sequence's end leaves beside its state.
void PrefixCache::report_stored(const KvSequence& sequence, std::int32_t row, const BlockHash& parent,
                                std::span<const TokenId> content) {
  pool_.report_eviction(tables_.row(sequence.table, 0, row));
  const bool salted = row == 0 && !(sequence.root == index_.root({}));
  observer_->on_stored({.hash = sequence.chain,
                        .parent = row == 0 ? nullptr : &parent,
                        .root = salted ? &sequence.root : nullptr,
                        .tokens = content,
                        .adapter = sequence.adapter.get()});
}

// Publishes the rows of each window that are visible to a position after `rows` rows.
void PrefixCache::publish_anchor(KvSequence& sequence, std::int32_t rows) {
  if (!sees_all_) return;  // all rows are published anyway
  const BlockTable& table = sequence.table;
  for (std::size_t group = 1; group < geometry_.groups().size(); ++group) {
    const KvGroup& of = geometry_.groups()[group];
    if (of.is_state()) continue;
    const std::int32_t first = of.first_visible_row(rows * geometry_.block_size());
    for (std::int32_t i = std::max(first, table.groups[group].first); i < rows; ++i) {
      std::span<const TokenId> content;
      if (index_.verifies())
        content = std::span(sequence.content)
                      .subspan(as_size(i * geometry_.block_size()), as_size(geometry_.block_size()));
      const BlockHash& hash = sequence.hashes[as_size(i)];
      if (!index_.find(hash, 0, content)) return;  // useless without the full-attention row
      index_.publish(tables_.row(table, group, i), hash, group, content, sequence.claim);
    }
  }
}

// Releases rows so that those evicted first are useless to others: from the end back to the start, an
// anchor's window rows before the full rows since the previous anchor. Window rows that were given back
// earlier count as used until now.
void PrefixCache::release(KvSequence& sequence) {
  if (states_ != nullptr) states_->publish_end(sequence);
  const BlockTable& table = sequence.table;
  if (!has_anchors_ || !sees_all_) {
    each_row(table,
             [&](std::size_t group, std::int32_t i) { pool_.release_one(tables_.row(table, group, i)); });
    return;
  }
  publish_anchor(sequence, sequence.num_hashed);
  for (std::size_t group = 1; group < geometry_.groups().size(); ++group) {
    for (std::int32_t i = table.groups[group].end - 1; i >= table.groups[group].first; --i)
      pool_.release_one(tables_.row(table, group, i));
  }
  auto anchor = sequence.anchors.rbegin();
  for (std::int32_t i = table.groups.front().end - 1; i >= 0; --i) {
    for (; anchor != sequence.anchors.rend() && *anchor > i; ++anchor)
      if (*anchor <= sequence.num_hashed) renew_anchor(sequence, *anchor);
    pool_.release_one(tables_.row(table, 0, i));
  }
}

void PrefixCache::renew_anchor(const KvSequence& sequence, std::int32_t rows) {
  for (std::size_t group = 1; group < geometry_.groups().size(); ++group) {
    const KvGroup& of = geometry_.groups()[group];
    const std::int32_t first = of.is_state() ? rows - 1 : of.first_visible_row(rows * geometry_.block_size());
    for (std::int32_t at = rows - 1; at >= first; --at) {
      if (const auto row = index_.find(sequence.hashes[as_size(at)], group)) pool_.renew(*row);
    }
  }
}

}  // namespace pagoda
