#include "kv_cache/paged_kv_manager.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace pagoda {

PagedKvManager::PagedKvManager(PagedKvConfig config)
    : config_(std::move(config)),
      pool_(config_.num_created > 0 ? config_.num_created : config_.num_blocks),
      hasher_(config_.model_id) {
  CHECK(config_.block_size >= 1);
  CHECK(config_.num_swap_blocks >= 0 && config_.num_swap_blocks <= config_.num_blocks);
  if (config_.num_swap_blocks > 0) swap_pool_.emplace(config_.num_swap_blocks);
  if (config_.verify_hits) {
    content_.resize(static_cast<std::size_t>(config_.num_blocks) *
                    static_cast<std::size_t>(config_.block_size));
  }
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
  return it->second;
}

std::int32_t PagedKvManager::blocks_for(std::int64_t num_tokens) const {
  return static_cast<std::int32_t>((num_tokens + config_.block_size - 1) / config_.block_size);
}

BlockHash PagedKvManager::hash_block(const BlockHash& parent, std::span<const TokenId> tokens) {
  BlockHash hash = hasher_.next(parent, tokens);
  if (config_.hash_bits < 64)
    hash = {{hash.words[0] & ((std::uint64_t{1} << config_.hash_bits) - 1), 0, 0, 0}};
  return hash;
}

bool PagedKvManager::content_matches(BlockId block, std::span<const TokenId> tokens) const {
  if (!config_.verify_hits) return true;
  return std::ranges::equal(
      tokens,
      std::span(content_).subspan(static_cast<std::size_t>(index(block)) * tokens.size(), tokens.size()));
}

std::int32_t PagedKvManager::add_sequence(SequenceId id, std::span<const TokenId> tokens,
                                          std::string_view salt, bool allow_cache) {
  Table& table = insert(id);
  if (config_.enable_prefix_caching) table.chain = table.root = hasher_.root(salt);
  if (!allow_cache || tokens.empty()) return 0;
  if (config_.enable_prefix_caching) map_cached(table, tokens);
  map_prefix(table, tokens);
  if (config_.enable_prefix_caching) {
    table.queried = static_cast<std::int64_t>(tokens.size());
    table.hit = table.num_computed;
  }
  return table.num_computed;
}

void PagedKvManager::map_cached(Table& table, std::span<const TokenId> tokens) {
  const auto block_size = static_cast<std::size_t>(config_.block_size);
  // The last token must be computed, for its logits; and a block is shared whole or not at all.
  const std::size_t num_full = (tokens.size() - 1) / block_size;
  for (std::size_t i = 0; i < num_full; ++i) {
    const auto content = tokens.subspan(i * block_size, block_size);
    const BlockHash hash = hash_block(table.chain, content);
    const std::optional<BlockId> block = pool_.find_cached(hash);
    if (!block || !content_matches(*block, content)) break;
    CHECK(pool_.acquire_cached(hash) == block);
    table.blocks.push_back(*block);
    table.chain = hash;
  }
  table.num_hashed = static_cast<std::int32_t>(table.blocks.size());
  table.num_tokens = table.num_computed = table.num_hashed * config_.block_size;
}

bool PagedKvManager::must_copy(const Table& table, std::int32_t num_tokens) const {
  const auto next = static_cast<std::size_t>(table.num_computed / config_.block_size);
  return num_tokens > table.num_computed && next < table.blocks.size() &&
         pool_.ref_count(table.blocks[next]) > 1;
}

std::int64_t PagedKvManager::blocks_to_grow(SequenceId id, std::int32_t num_tokens) const {
  const Table& table = at(id);
  const std::int64_t held = static_cast<std::int64_t>(table.blocks.size());
  return std::max<std::int64_t>(0, blocks_for(num_tokens) - held) + (must_copy(table, num_tokens) ? 1 : 0);
}

BlockId PagedKvManager::new_block(SequenceId, std::size_t, std::span<const BlockId>) {
  return *pool_.allocate_one();
}

bool PagedKvManager::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  Table& table = at(id);
  CHECK(!table.swapped);
  const bool copy = must_copy(table, num_tokens);
  const auto wanted = static_cast<std::size_t>(blocks_for(num_tokens));
  const std::size_t more = wanted > table.blocks.size() ? wanted - table.blocks.size() : 0;
  if (static_cast<std::size_t>(pool_.num_free()) < more + (copy ? 1 : 0)) return false;
  if (copy) {
    // Only the last block of a fork can be both shared and unfinished, so this is one copy at most.
    const auto next = static_cast<std::size_t>(table.num_computed / config_.block_size);
    CHECK(next + 1 == table.blocks.size());
    const BlockId fresh = new_block(id, next, table.blocks);
    if (table.num_computed % config_.block_size != 0)
      copies.push_back({.from = table.blocks[next], .to = fresh});
    pool_.release_one(table.blocks[next]);
    table.blocks[next] = fresh;
  }
  for (std::size_t i = 0; i < more; ++i)
    table.blocks.push_back(new_block(id, table.blocks.size(), table.blocks));
  table.num_tokens = std::max(table.num_tokens, num_tokens);
  stats_.queries += std::exchange(table.queried, 0);
  stats_.hits += std::exchange(table.hit, 0);
  return true;
}

void PagedKvManager::computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) {
  Table& table = at(id);
  CHECK(num_computed >= table.num_computed && num_computed <= table.num_tokens);
  CHECK(static_cast<std::size_t>(num_computed) <= tokens.size());
  table.num_computed = num_computed;
  if (!config_.enable_prefix_caching) return;
  const auto block_size = static_cast<std::size_t>(config_.block_size);
  for (; (table.num_hashed + 1) * config_.block_size <= num_computed; ++table.num_hashed) {
    const auto i = static_cast<std::size_t>(table.num_hashed);
    const auto content = tokens.subspan(i * block_size, block_size);
    table.chain = hash_block(table.chain, content);
    if (pool_.publish(table.blocks[i], table.chain) && config_.verify_hits) {
      std::ranges::copy(
          content, content_.begin() + static_cast<std::ptrdiff_t>(
                                          static_cast<std::size_t>(index(table.blocks[i])) * block_size));
    }
  }
}

void PagedKvManager::shrink(SequenceId id, std::int32_t num_tokens) {
  Table& table = at(id);
  CHECK(!table.swapped && num_tokens >= table.num_computed);
  table.num_tokens = std::min(table.num_tokens, num_tokens);
  for (const auto wanted = static_cast<std::size_t>(blocks_for(table.num_tokens));
       table.blocks.size() > wanted; table.blocks.pop_back())
    pool_.release_one(table.blocks.back());
}

void PagedKvManager::fork(SequenceId parent, SequenceId child) {
  insert(child);  // first: it may move the parent
  Table& copy = at(child);
  copy = at(parent);
  for (const BlockId block : copy.blocks) pool_.share(block);
}

std::int32_t PagedKvManager::fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) {
  Table& copy = insert(child);
  const Table& from = at(parent);
  const std::int32_t num_full = num_tokens / config_.block_size;
  CHECK(num_full * config_.block_size <= from.num_computed);
  copy.blocks.assign(from.blocks.begin(), from.blocks.begin() + num_full);
  for (const BlockId block : copy.blocks) pool_.share(block);
  copy.num_tokens = copy.num_computed = num_full * config_.block_size;
  copy.chain = copy.root = from.root;
  return copy.num_computed;
}

void PagedKvManager::free(SequenceId id) {
  const auto it = tables_.find(id);
  CHECK(it != tables_.end());
  BlockPool& pool = it->second.swapped ? *swap_pool_ : pool_;
  for (const BlockId block : std::views::reverse(it->second.blocks)) pool.release_one(block);
  tables_.erase(it);
}

std::span<const BlockId> PagedKvManager::block_table(SequenceId id) const {
  const Table& table = at(id);
  CHECK(!table.swapped);
  return table.blocks;
}

std::int64_t PagedKvManager::blocks_owned_by(std::span<const SequenceId> ids) const {
  std::unordered_map<std::int32_t, std::int32_t> held;
  for (const SequenceId id : ids) {
    for (const BlockId block : at(id).blocks) ++held[index(block)];
  }
  return std::ranges::count_if(
      held, [this](const auto& entry) { return pool_.ref_count(BlockId{entry.first}) == entry.second; });
}

Fit PagedKvManager::fit(std::int64_t num_tokens) const {
  const std::int64_t blocks = (num_tokens + config_.block_size - 1) / config_.block_size;
  if (blocks > pool_.num_blocks()) return Fit::never;
  return blocks <= pool_.num_free() ? Fit::now : Fit::later;
}

void PagedKvManager::clear_prefix_cache() { pool_.clear_cache(); }

KvUsage PagedKvManager::usage() const {
  const std::int64_t size = config_.block_size;
  KvUsage out;
  out.total_slots = num_blocks() * size;
  out.blocks_in_use = num_blocks() - num_free_blocks();
  out.cached_slots = pool_.num_cached() * size;
  // A shared block counts once, as full as its fullest holder has it.
  fills_.assign(static_cast<std::size_t>(num_blocks()), Fill{});
  for (const auto& [id, table] : tables_) {
    if (table.swapped) continue;
    out.blocks_without_sharing += static_cast<std::int64_t>(table.blocks.size());
    std::int64_t begin = 0;
    for (const BlockId block : table.blocks) {
      Fill& fill = fills_[static_cast<std::size_t>(index(block))];
      const auto filled = [&](std::int64_t tokens) {
        return static_cast<std::int16_t>(std::clamp<std::int64_t>(tokens - begin, 0, size));
      };
      fill.computed = std::max(fill.computed, filled(table.num_computed));
      fill.known = std::max({fill.known, fill.computed, filled(table.num_tokens)});
      begin += size;
    }
  }
  std::int64_t known = 0;
  for (const Fill& fill : fills_) {
    out.token_slots += fill.computed;
    known += fill.known;
  }
  out.reserved_slots = known - out.token_slots;
  out.allocated_slots = out.blocks_in_use * size;
  out.internal_slots = out.allocated_slots - known;
  return out;
}

void PagedKvManager::check_invariants() const {
  pool_.check_invariants();
  std::unordered_map<std::int32_t, std::int32_t> references, swap_references;
  for (const auto& [id, table] : tables_) {
    CHECK(table.num_computed <= table.num_tokens);
    CHECK(static_cast<std::int64_t>(table.blocks.size()) == blocks_for(table.num_tokens));
    CHECK(!table.swapped || swap_pool_);
    auto& counts = table.swapped ? swap_references : references;
    for (const BlockId block : table.blocks) ++counts[index(block)];
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
  for (const Prefix& prefix : prefixes_)
    CHECK(at(prefix.holder).num_computed == static_cast<std::int32_t>(prefix.tokens.size()));
}

}  // namespace pagoda
