#include "kv_cache/reserved_kv_manager.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace pagoda {

ReservedKvManager::ReservedKvManager(const ReservedKvConfig& config)
    : config_(config), groups_(one_full_group(config.block_size)), buddies_(config.num_blocks) {
  CHECK(config_.block_size >= 1 && config_.max_model_len >= 1);
}

ReservedKvManager::Region& ReservedKvManager::at(SequenceId id) {
  const auto it = regions_.find(id);
  CHECK(it != regions_.end());
  return it->second;
}

const ReservedKvManager::Region& ReservedKvManager::at(SequenceId id) const {
  const auto it = regions_.find(id);
  CHECK(it != regions_.end());
  return it->second;
}

std::int32_t ReservedKvManager::blocks_for(std::int32_t num_tokens) const {
  return (num_tokens + config_.block_size - 1) / config_.block_size;
}

std::vector<BlockId> ReservedKvManager::consecutive(std::int32_t first, std::size_t count) {
  std::vector<BlockId> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = BlockId{first + static_cast<std::int32_t>(i)};
  return out;
}

std::int32_t ReservedKvManager::blocks_to_reserve(std::int32_t num_prompt, std::int32_t num_tokens) const {
  std::int32_t tokens = num_tokens;
  if (config_.reservation == Reservation::max) tokens = config_.max_model_len;
  if (config_.reservation == Reservation::pow2) {
    const auto output = static_cast<std::uint32_t>(std::max(0, num_tokens - num_prompt));
    const std::int64_t rounded = num_prompt + static_cast<std::int64_t>(std::bit_ceil(output));
    tokens = static_cast<std::int32_t>(std::min<std::int64_t>(rounded, config_.max_model_len));
  }
  return std::max(1, blocks_for(std::max(tokens, num_tokens)));
}

bool ReservedKvManager::can_ever_reserve(std::int32_t num_prompt, std::int32_t num_tokens,
                                         std::int32_t num_forks) const {
  return buddies_.regions_when_empty(blocks_to_reserve(num_prompt, num_tokens)) > num_forks;
}

std::int32_t ReservedKvManager::add_sequence(SequenceId id, std::span<const TokenId>, std::string_view,
                                             bool) {
  CHECK(regions_.try_emplace(id).second);
  return 0;
}

bool ReservedKvManager::reserve(SequenceId id, std::int32_t num_prompt, std::int32_t num_tokens,
                                std::int32_t num_forks) {
  Region& region = at(id);
  CHECK(region.blocks.empty());
  const std::int32_t count = blocks_to_reserve(num_prompt, num_tokens);
  std::vector<std::int32_t> firsts;
  while (static_cast<std::int32_t>(firsts.size()) <= num_forks) {
    const auto first = buddies_.allocate(count);
    if (!first) break;
    firsts.push_back(*first);
  }
  refused_ = static_cast<std::int32_t>(firsts.size()) <= num_forks;
  if (refused_) {
    for (const std::int32_t first : firsts) buddies_.free(first);
    return false;
  }
  region.num_expected = num_tokens;
  region.blocks = consecutive(firsts.front(), static_cast<std::size_t>(count));
  region.for_forks.assign(firsts.rbegin(), firsts.rend() - 1);  // taken from the back, lowest first
  return true;
}

bool ReservedKvManager::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  Region& region = at(id);
  if (static_cast<std::size_t>(blocks_for(num_tokens)) > region.blocks.size()) return false;
  region.num_tokens = std::max(region.num_tokens, num_tokens);
  copies.insert(copies.end(), fork_copies_.begin(), fork_copies_.end());
  fork_copies_.clear();
  return true;
}

void ReservedKvManager::computed(SequenceId id, std::span<const TokenId>, std::int32_t num_computed) {
  Region& region = at(id);
  CHECK(num_computed >= region.num_computed && num_computed <= region.num_tokens);
  region.num_computed = num_computed;
}

void ReservedKvManager::fork(SequenceId parent, SequenceId child) {
  CHECK(regions_.try_emplace(child).second);
  Region& copy = at(child);
  Region& from = at(parent);
  CHECK(!from.for_forks.empty());
  copy.blocks = consecutive(from.for_forks.back(), from.blocks.size());
  from.for_forks.pop_back();
  copy.num_tokens = from.num_tokens;
  copy.num_computed = from.num_computed;
  copy.num_expected = from.num_expected;
  for (std::size_t i = 0; i < static_cast<std::size_t>(blocks_for(from.num_computed)); ++i)
    fork_copies_.push_back({.from = from.blocks[i], .to = copy.blocks[i]});
}

std::int32_t ReservedKvManager::fork_prefix(SequenceId, SequenceId, std::int32_t) {
  CHECK(!"resuming a gang needs the paged manager");
  return 0;
}

void ReservedKvManager::retire(SequenceId id) {
  Region& region = at(id);
  region.retired = true;
  for (const std::int32_t first : region.for_forks) buddies_.free(first);
  region.for_forks.clear();
}

void ReservedKvManager::free(SequenceId id) {
  Region& region = at(id);
  if (!region.blocks.empty()) buddies_.free(index(region.blocks.front()));
  for (const std::int32_t first : region.for_forks) buddies_.free(first);
  regions_.erase(id);
}

std::span<const BlockId> ReservedKvManager::block_table(SequenceId id) const {
  const Region& region = at(id);
  return std::span(region.blocks).first(static_cast<std::size_t>(blocks_for(region.num_tokens)));
}

std::int64_t ReservedKvManager::blocks_owned_by(std::span<const SequenceId> ids) const {
  std::int64_t out = 0;
  for (const SequenceId id : ids) {
    const Region& region = at(id);
    if (region.blocks.empty()) continue;
    const auto regions = static_cast<std::int64_t>(1 + region.for_forks.size());
    out += regions * BuddyAllocator::region_size(static_cast<std::int32_t>(region.blocks.size()));
  }
  return out;
}

Fit ReservedKvManager::fit(std::int64_t num_tokens) const {
  if (num_tokens > config_.max_model_len) return Fit::never;
  const std::int32_t blocks = blocks_to_reserve(0, static_cast<std::int32_t>(num_tokens));
  if (buddies_.regions_when_empty(blocks) < 1) return Fit::never;
  return buddies_.largest_free() >= blocks ? Fit::now : Fit::later;
}

KvUsage ReservedKvManager::usage() const {
  const std::int64_t size = config_.block_size;
  KvUsage out;
  out.total_slots = num_blocks() * size;
  out.blocks_in_use = out.blocks_without_sharing = num_blocks() - num_free_blocks();
  out.allocated_slots = out.blocks_in_use * size;
  for (const auto& [id, region] : regions_) {
    if (region.blocks.empty()) continue;
    const auto blocks = static_cast<std::int64_t>(region.blocks.size());
    const std::int64_t slots = blocks * size;
    const std::int64_t rounding =
        BuddyAllocator::region_size(static_cast<std::int32_t>(blocks)) * size - slots;
    const auto forks = static_cast<std::int64_t>(region.for_forks.size());
    const std::int64_t expected = std::clamp<std::int64_t>(region.num_expected, region.num_computed, slots);
    // The paper counts what the allocator's rounding wastes with the external fragmentation.
    out.external_slots += (1 + forks) * rounding;
    if (region.retired) {
      out.internal_slots += slots;
      continue;
    }
    out.token_slots += region.num_computed;
    out.reserved_slots += expected - region.num_computed + forks * expected;
    out.internal_slots += (1 + forks) * (slots - expected);
  }
  if (refused_) out.external_slots += num_free_blocks() * size;
  return out;
}

void ReservedKvManager::check_invariants() const {
  buddies_.check_invariants();
  std::vector<bool> taken(static_cast<std::size_t>(config_.num_blocks));
  std::int64_t in_use = 0;
  const auto take = [&](std::int32_t first, std::size_t count) {
    const std::int32_t whole = BuddyAllocator::region_size(static_cast<std::int32_t>(count));
    for (std::int32_t block = first; block < first + whole; ++block) {
      CHECK(!taken[static_cast<std::size_t>(block)]);
      taken[static_cast<std::size_t>(block)] = true;
    }
    in_use += whole;
  };
  for (const auto& [id, region] : regions_) {
    CHECK(region.num_computed <= region.num_tokens);
    CHECK(static_cast<std::size_t>(blocks_for(region.num_tokens)) <= region.blocks.size());
    if (region.blocks.empty()) continue;
    CHECK(index(region.blocks.back()) - index(region.blocks.front()) + 1 ==
          static_cast<std::int32_t>(region.blocks.size()));
    take(index(region.blocks.front()), region.blocks.size());
    for (const std::int32_t first : region.for_forks) take(first, region.blocks.size());
  }
  CHECK(in_use + num_free_blocks() == num_blocks());
}

}  // namespace pagoda
