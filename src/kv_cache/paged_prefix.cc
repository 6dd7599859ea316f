// Pinned prefixes of PagedKvManager: whole blocks by reference, the last one copied by whoever writes.
#include <algorithm>
#include <ranges>
#include <unordered_set>

#include "base/check.h"
#include "kv_cache/paged_kv_manager.h"

namespace pagoda {

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
  for (const Prefix& prefix : prefixes_)
    for (const BlockId block : at(prefix.holder).blocks) blocks.insert(index(block));
  num_pinned_.store(static_cast<std::int64_t>(blocks.size()), std::memory_order_release);
}

void PagedKvManager::map_prefix(Table& table, std::span<const TokenId> tokens) {
  const Prefix* best = nullptr;
  std::int32_t num_taken = table.num_computed;
  for (const Prefix& prefix : prefixes_) {
    // The last token must be computed, for its logits.
    const auto taken = static_cast<std::int32_t>(std::min(prefix.tokens.size(), tokens.size() - 1));
    if (taken <= num_taken || prefix.tokens.size() > tokens.size()) continue;
    if (!std::ranges::equal(prefix.tokens, tokens.first(prefix.tokens.size()))) continue;
    best = &prefix;
    num_taken = taken;
  }
  if (best == nullptr) return;
  for (const BlockId block : std::views::reverse(table.blocks)) pool_.release_one(block);
  const Table& holder = at(best->holder);
  table.blocks.assign(holder.blocks.begin(), holder.blocks.begin() + blocks_for(num_taken));
  for (const BlockId block : table.blocks) pool_.share(block);
  table.num_tokens = table.num_computed = num_taken;
  if (!config_.enable_prefix_caching) return;
  const auto block_size = static_cast<std::size_t>(config_.block_size);
  for (; (table.num_hashed + 1) * config_.block_size <= num_taken; ++table.num_hashed) {
    const auto begin = static_cast<std::size_t>(table.num_hashed) * block_size;
    table.chain = hash_block(table.chain, tokens.subspan(begin, block_size));
  }
}

}  // namespace pagoda
