#include "kv_cache/reserved_kv_manager.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/check.h"

namespace pagoda {

ReservedKvManager::ReservedKvManager(const ReservedKvConfig& config)
    // One group: windows are reserved whole, as in those systems.
    : KvManager(KvGeometry(config.block_size, one_full_group(config.block_size)), *this, no_swap_, *this,
                no_tiers_),
      config_(config),
      buddies_(config.num_blocks) {
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

std::int32_t ReservedKvManager::add_sequence(SequenceId id, std::span<const TokenId>, const CacheUse&, bool) {
  CHECK(regions_.try_emplace(id).second);
  return 0;
}

bool ReservedKvManager::reserve(SequenceId id, std::int32_t num_prompt, std::int32_t num_tokens,
                                std::int32_t num_forks, Forks forks) {
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
  region.family = id;
  Family& family = families_[id];
  family = {.num_blocks = region.blocks.size(),
            .num_expected = num_tokens,
            .num_members = 1,
            .forks = forks,
            .spare = {firsts.rbegin(), firsts.rend() - 1}};  // taken from the back, lowest first
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
  const Region& from = at(parent);
  Family& family = families_.at(from.family);
  CHECK(!family.spare.empty());
  copy.blocks = consecutive(family.spare.back(), family.num_blocks);
  family.spare.pop_back();
  ++family.num_members;
  copy.num_tokens = from.num_tokens;
  copy.num_computed = from.num_computed;
  copy.num_expected = from.num_expected;
  copy.family = from.family;
  const std::size_t count = family.forks == Forks::often
                                ? family.num_blocks
                                : static_cast<std::size_t>(blocks_for(from.num_computed));
  for (std::size_t i = 0; i < count; ++i)
    fork_copies_.push_back({.from = from.blocks[i], .to = copy.blocks[i]});
}

void ReservedKvManager::free_spare(Family& family) {
  for (const std::int32_t first : family.spare) buddies_.free(first);
  family.spare.clear();
}

void ReservedKvManager::retire(SequenceId id) {
  Region& region = at(id);
  region.retired = true;
  free_spare(families_.at(region.family));
}

void ReservedKvManager::free(SequenceId id) {
  const auto it = regions_.find(id);
  CHECK(it != regions_.end());
  const Region& region = it->second;
  if (!region.blocks.empty()) {
    const auto family = families_.find(region.family);
    CHECK(family != families_.end());
    const std::int32_t first = index(region.blocks.front());
    const bool last = --family->second.num_members == 0;
    if (family->second.forks == Forks::often && !last)
      family->second.spare.push_back(first);
    else
      buddies_.free(first);
    if (family->second.forks == Forks::once || last) free_spare(family->second);
    if (last) families_.erase(family);
  }
  regions_.erase(it);
}

KvTables ReservedKvManager::tables(SequenceId id) const {
  const Region& region = at(id);
  return {.blocks = std::span(region.blocks).first(static_cast<std::size_t>(blocks_for(region.num_tokens)))};
}

std::int64_t ReservedKvManager::blocks_owned_by(std::span<const SequenceId> ids) const {
  std::int64_t out = 0;
  std::optional<SequenceId> family;
  for (const SequenceId id : ids) {
    const Region& region = at(id);
    if (region.blocks.empty()) continue;
    std::int64_t count = 1;
    if (!family || *family != region.family) {
      family = region.family;  // a request's sequences are one family
      count += std::ssize(families_.at(region.family).spare);
    }
    out += count * BuddyAllocator::region_size(static_cast<std::int32_t>(region.blocks.size()));
  }
  return out;
}

KvUsage ReservedKvManager::usage() const {
  const std::int64_t size = config_.block_size;
  KvUsage out;
  out.total_slots = num_blocks() * size;
  out.blocks_in_use = out.blocks_without_sharing = num_blocks() - num_free_blocks();
  out.allocated_slots = out.blocks_in_use * size;
  // The paper counts space lost to the allocator's rounding as external fragmentation.
  const auto rounding = [&](std::int64_t blocks) {
    return (BuddyAllocator::region_size(static_cast<std::int32_t>(blocks)) - blocks) * size;
  };
  for (const auto& [id, region] : regions_) {
    if (region.blocks.empty()) continue;
    const auto blocks = static_cast<std::int64_t>(region.blocks.size());
    const std::int64_t slots = blocks * size;
    const std::int64_t expected = std::clamp<std::int64_t>(region.num_expected, region.num_computed, slots);
    out.external_slots += rounding(blocks);
    if (region.retired) {
      out.internal_slots += slots;
      continue;
    }
    out.token_slots += region.num_computed;
    out.reserved_slots += expected - region.num_computed;
    out.internal_slots += slots - expected;
  }
  for (const auto& [id, family] : families_) {
    const auto blocks = static_cast<std::int64_t>(family.num_blocks);
    const std::int64_t expected = std::min<std::int64_t>(family.num_expected, blocks * size);
    const std::int64_t spare = std::ssize(family.spare);
    out.external_slots += spare * rounding(blocks);
    out.reserved_slots += spare * expected;
    out.internal_slots += spare * (blocks * size - expected);
  }
  if (refused_) out.external_slots += num_free_blocks() * size;
  return out;
}

void ReservedKvManager::check_invariants() const {
  buddies_.check_invariants();
  std::vector<bool> taken(static_cast<std::size_t>(config_.num_blocks));
  std::int64_t in_use = 0;
  std::unordered_map<SequenceId, std::int32_t> members;
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
    const auto family = families_.find(region.family);
    CHECK(family != families_.end() && family->second.num_blocks == region.blocks.size());
    ++members[region.family];
  }
  for (const auto& [id, family] : families_) {
    CHECK(members[id] == family.num_members && family.num_members > 0);
    for (const std::int32_t first : family.spare) take(first, family.num_blocks);
  }
  CHECK(in_use + num_free_blocks() == num_blocks());
}

}  // namespace pagoda
