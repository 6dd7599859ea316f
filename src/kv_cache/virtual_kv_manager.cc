#include "kv_cache/virtual_kv_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {
namespace {

std::int32_t num_created(const VirtualKvConfig& config) {
  return config.num_created > 0 ? config.num_created : config.pages.num_blocks;
}

}  // namespace

VirtualKvManager::VirtualKvManager(const VirtualKvConfig& config)
    : VirtualKvManager(std::make_unique<PagedMemory>(config.pages, num_created(config), config.may_create),
                       config) {}

VirtualKvManager::VirtualKvManager(std::unique_ptr<PagedMemory> memory, const VirtualKvConfig& config)
    : KvManager(memory->parts.geometry, memory->sharing, *this, *this, memory->tiering()),
      memory_(std::move(memory)),
      slots_(config.slots, geometry(), parts().tables, memory_->parts.pool),
      num_created_(num_created(config)),
      most_resident_free_(config.most_resident_free) {}

bool VirtualKvManager::make_ready(std::int64_t num_blocks, std::span<const std::int32_t> num_tokens) {
  std::int64_t entries = 0;
  for (const std::int32_t tokens : num_tokens)
    entries += pages_for(token_groups(geometry().groups()), std::int64_t{tokens} + 1);
  return memory_->parts.supply.make_available(num_blocks) && slots_.make_space(entries);
}

void VirtualKvManager::take_page_mappings(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead) {
  slots_.map().take(now, ahead);
  // Give pages back one batch later, since this one may still copy from a page that has just become FREE.
  // This may run concurrently with the step, which neither reads nor writes FREE pages.
  FreePages& free_pages = memory_->parts.pool.free_pages();
  std::erase_if(forgotten_, [&](BlockId page) { return free_pages.is_used(page); });
  for (std::size_t begin = 0, end = 0; begin < forgotten_.size(); begin = end) {
    const std::int32_t page = index(forgotten_[begin]);
    while (end < forgotten_.size() && index(forgotten_[end]) == page + static_cast<std::int32_t>(end - begin))
      ++end;
    ahead.push_back(
        {.block = kNoBlock, .page = BlockId{page}, .count = static_cast<std::int32_t>(end - begin)});
  }
  forgotten_.clear();
  // Many pages at a time, so that a page that is repeatedly freed and reused keeps its memory.
  if (most_resident_free_ > 0 && free_pages.num_used() > most_resident_free_ + most_resident_free_ / 4)
    free_pages.forget_used(most_resident_free_, forgotten_);
}

bool VirtualKvManager::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  PagedSteps& steps = memory_->steps;
  const BlockTable& rows = table(id);
  const std::int64_t to_show = slots_.pages_to_show(id, rows, num_tokens);
  if (!steps.can_grow(id, num_tokens) ||
      !memory_->parts.supply.make_available(steps.blocks_to_grow(id, num_tokens)) ||
      !slots_.make_space(to_show) || !slots_.enter(id, rows, num_tokens))
    return false;
  const auto new_row = [this, id](std::size_t group, std::int32_t at, std::vector<BlockId>& pages) {
    if (!slots_.take_row(id, group, at, pages)) memory_->steps.take_row(group, pages);
  };
  CHECK(steps.grow(id, num_tokens, new_row, copies));
  slots_.show(id, rows, num_tokens, to_show > 0);
  return true;
}

// Blocks that count as free may have to be made ready first, which may fail.
std::int32_t VirtualKvManager::most_tokens(SequenceId id, std::int32_t num_tokens) {
  const std::int32_t most = memory_->steps.most_tokens(id, num_tokens);
  const std::vector<KvGroup>& groups = geometry().groups();
  if (groups.size() == 1 && groups.front().kind == KvKind::full) return most;
  const std::int32_t computed = table(id).num_computed, size = geometry().block_size();
  const auto can_get = [&](std::int32_t tokens) {
    return memory_->parts.supply.make_available(blocks_to_grow(id, tokens)) &&
           slots_.make_space(slots_.pages_to_show(id, table(id), tokens));
  };
  std::int32_t tokens = most;
  while (tokens > computed && !can_get(tokens)) tokens = (tokens - 1) / size * size;
  return std::max(tokens, computed);
}

void VirtualKvManager::computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) {
  memory_->steps.computed(id, tokens, num_computed);
  slots_.computed(id, table(id));
}

void VirtualKvManager::shrink(SequenceId id, std::int32_t num_tokens) {
  memory_->steps.shrink(id, num_tokens);
  slots_.shrink(id, table(id));
}

void VirtualKvManager::free(SequenceId id) {
  memory_->parts.free(id);  // first: pages that become free are held back for the slot
  slots_.leave(id);
}

bool VirtualKvManager::swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (!memory_->swap.swap_out(ids, copies)) return false;
  for (const SequenceId id : ids) slots_.leave(id);
  return true;
}

std::optional<BlockId> VirtualKvManager::first_virtual_block(SequenceId id) const {
  if (slots_.num_ranges() == 0) return std::nullopt;
  const std::span<const BlockId> blocks = tables(id).blocks;
  return blocks.empty() ? std::nullopt : std::optional(blocks.front());
}

Status VirtualKvManager::check_alone(std::int64_t num_sequences, std::int64_t num_tokens,
                                     std::int64_t num_needed) const {
  const std::int64_t most_regions = slots().config().max_regions;
  // Counted as in make_space() when there are no useless mappings: every page of every sequence may be
  // separate from its neighbours.
  const std::int64_t regions = 1 + 2 * pages_for(token_groups(geometry().groups()), num_tokens, num_sequences,
                                                 0, parts().config.whole_prompts ? num_tokens : 0);
  if (most_regions > 0 && regions > most_regions) {
    return invalid_argument(concat("The request can never fit: ", num_sequences, " sequences of ", num_tokens,
                                   " tokens may need ", regions, " mappings, and the system allows ",
                                   most_regions, " (vm.max_map_count). A larger --kv-page-size needs fewer."))
        .with_param("max_tokens");
  }
  const std::int64_t sure = num_created_ - sharing().num_pinned_blocks();
  if (num_needed > sure) {
    return invalid_argument(concat("The request can never be sure to fit: it may need ", num_needed,
                                   " KV pages, and only ", std::max<std::int64_t>(0, sure),
                                   " are kept ready. --kv-precreate-pages makes all of them ready."))
        .with_param("max_tokens");
  }
  return ok_status();
}

void VirtualKvManager::check_invariants() const {
  memory_->inspection.check_invariants();
  slots_.check_invariants(parts().sequences);
}

}  // namespace pagoda
