// Swapping of PagedKvManager: whole gangs between the pool and the swap space.
#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "kv_cache/paged_kv_manager.h"

namespace pagoda {

std::int64_t PagedKvManager::blocks_to_swap(std::span<const SequenceId> ids) const {
  std::vector<std::int32_t> blocks;
  for (const SequenceId id : ids) {
    const Table& table = at(id);
    for (std::int32_t i = 0; i < blocks_for(table.num_computed); ++i)
      blocks.push_back(index(table.blocks[static_cast<std::size_t>(i)]));
  }
  std::ranges::sort(blocks);
  return std::ranges::unique(blocks).begin() - blocks.begin();
}

SwapCost PagedKvManager::swap_cost(std::span<const SequenceId> ids) const {
  const std::int64_t pages = blocks_to_swap(ids);
  std::int64_t tokens = 0;
  for (const SequenceId id : ids) tokens += at(id).num_computed;
  return {.pages = pages, .tokens = std::min(tokens, pages * config_.block_size)};
}

bool PagedKvManager::swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (num_free_swap_blocks() < blocks_to_swap(ids)) return false;
  if (!swap_pool_) return false;
  std::unordered_map<std::int32_t, BlockId> moved;
  for (const SequenceId id : ids) {
    Table& table = at(id);
    CHECK(!table.swapped);
    const auto num_kept = static_cast<std::size_t>(blocks_for(table.num_computed));
    std::vector<BlockId> kept;
    kept.reserve(num_kept);
    for (const BlockId block : std::span(table.blocks).first(num_kept)) {
      if (const auto it = moved.find(index(block)); it != moved.end()) {
        swap_pool_->share(it->second);
        kept.push_back(it->second);
        continue;
      }
      const BlockId to = *swap_pool_->allocate_one();
      moved.emplace(index(block), to);
      copies.push_back({.block = block, .swap_block = SwapBlockId{index(to)}});
      kept.push_back(to);
    }
    // What is published stays findable in the pool until it is evicted; the sequence has its own copy.
    for (const BlockId block : std::views::reverse(table.blocks)) pool_.release_one(block);
    table.blocks = std::move(kept);
    table.num_tokens = table.num_computed;
    table.swapped = true;
  }
  return true;
}

bool PagedKvManager::swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (pool_.num_free() < blocks_to_swap(ids)) return false;
  std::unordered_map<std::int32_t, BlockId> moved;
  for (const SequenceId id : ids) {
    Table& table = at(id);
    CHECK(table.swapped);
    std::vector<BlockId> blocks;
    blocks.reserve(table.blocks.size());
    for (const BlockId from : table.blocks) {
      if (const auto it = moved.find(index(from)); it != moved.end()) {
        pool_.share(it->second);
        blocks.push_back(it->second);
        continue;
      }
      const BlockId to = *pool_.allocate_one();
      moved.emplace(index(from), to);
      copies.push_back({.block = to, .swap_block = SwapBlockId{index(from)}});
      blocks.push_back(to);
    }
    for (const BlockId block : std::views::reverse(table.blocks)) swap_pool_->release_one(block);
    table.blocks = std::move(blocks);
    table.swapped = false;
  }
  return true;
}

}  // namespace pagoda
