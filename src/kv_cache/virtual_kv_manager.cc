#include "kv_cache/virtual_kv_manager.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::int64_t kPagesPerGrant = 64;
constexpr std::int32_t kPauseAfterRefusal = 64;  // asks

// As many rows for each group of tokens.
std::vector<std::int32_t> range_lengths(std::span<const KvGroup> groups, std::int32_t blocks_per_slot) {
  std::vector<std::int32_t> lengths;
  if (groups.empty()) return lengths;
  std::int32_t pages = 0;
  for (const KvGroup& group : groups) pages += group.pages_per_row;
  CHECK(blocks_per_slot % pages == 0);
  for (const KvGroup& group : groups) lengths.push_back(blocks_per_slot / pages * group.pages_per_row);
  return lengths;
}

}  // namespace

VirtualKvManager::VirtualKvManager(const VirtualKvConfig& config)
    : PagedKvManager(config.pages),
      slots_(config.slots, mutable_pool(),
             range_lengths(token_groups(groups()), config.slots.blocks_per_slot)),
      may_create_(config.may_create),
      most_resident_free_(config.most_resident_free) {
  CHECK(config.pages.num_created <= config.pages.num_blocks);
  CHECK(num_uncreated() == 0 || may_create_);
}

bool VirtualKvManager::make_available(std::int64_t num_pages) {
  // Fresh pages go before those that keep content of finished requests.
  std::int64_t lacking = num_pages - (pool().num_free() - pool().num_cached());
  if (lacking > 0 && num_uncreated() > 0) {
    lacking = std::min(lacking, num_uncreated());
    const bool must = num_pages > pool().num_free();
    if (must || num_refusals_ == 0) {
      num_refusals_ = kPauseAfterRefusal;
      for (const std::int64_t count : {std::min(lacking + kPagesPerGrant, num_uncreated()), lacking}) {
        if (!may_create_(count)) continue;
        mutable_pool().add_blocks(static_cast<std::int32_t>(count));
        num_refusals_ = 0;
        break;
      }
    } else {
      --num_refusals_;
    }
  }
  return num_pages <= pool().num_free();
}

bool VirtualKvManager::make_ready(std::int64_t num_blocks, std::span<const std::int32_t> num_tokens) {
  std::int64_t entries = 0;
  for (const std::int32_t tokens : num_tokens)
    entries += pages_for(token_groups(groups()), std::int64_t{tokens} + 1);
  return make_available(num_blocks) && slots_.make_space(entries);
}

void VirtualKvManager::new_row(SequenceId id, std::size_t group, std::int32_t at,
                               std::vector<BlockId>& pages) {
  if (group >= num_ranges()) return PagedKvManager::new_row(id, group, at, pages);
  const std::int32_t range = slots_.range_of(growing_in_, group);
  const std::size_t begin = pages.size();
  for (std::int32_t page = 0; page < per_row(group); ++page) {
    const BlockId previous = pages.empty() ? kNoPage : pages.back();
    pages.push_back(*slots_.allocate(range, at * per_row(group) + page, previous));
  }
  mutable_pool().join(std::span(pages).subspan(begin));
}

void VirtualKvManager::take_page_mappings(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead) {
  slots_.take(now, ahead);
  // A batch later, for this one may still copy what was in a page that has just become FREE. Beside the step:
  // nobody reads or writes a FREE page in it.
  std::erase_if(forgotten_, [&](BlockId page) { return pool().free_pages().is_used(page); });
  for (std::size_t begin = 0, end = 0; begin < forgotten_.size(); begin = end) {
    const std::int32_t page = index(forgotten_[begin]);
    while (end < forgotten_.size() && index(forgotten_[end]) == page + static_cast<std::int32_t>(end - begin))
      ++end;
    ahead.push_back(
        {.block = kNoBlock, .page = BlockId{page}, .count = static_cast<std::int32_t>(end - begin)});
  }
  forgotten_.clear();
  // Many at a time, so that a page that comes and goes keeps its memory.
  if (most_resident_free_ > 0 &&
      pool().free_pages().num_used() > most_resident_free_ + most_resident_free_ / 4)
    mutable_pool().free_pages().forget_used(most_resident_free_, forgotten_);
}

std::int64_t VirtualKvManager::pages_to_show(SequenceId id, std::int32_t num_tokens) const {
  const bool fresh = !places_.contains(id);
  std::int64_t pages = 0;
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    pages += pages_to_grow(id, group, num_tokens);
    if (fresh) pages += std::ssize(pages_of(id, group).blocks);
  }
  return pages;
}

bool VirtualKvManager::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  const std::int64_t to_show = pages_to_show(id, num_tokens);
  auto place = places_.find(id);
  const bool fresh = place == places_.end();
  if (!can_grow(id, num_tokens) || !make_available(blocks_to_grow(id, num_tokens)) ||
      !slots_.make_space(to_show))
    return false;
  const std::int32_t rows = blocks_for(std::max(num_tokens, table(id).num_tokens));
  if (fresh) {
    std::vector<RangeNeed> needs;
    for (std::size_t group = 0; group < num_ranges(); ++group) {
      needs.push_back({.first = first_block(id, group),
                       .pages = pages_of(id, group).blocks,
                       .end = rows * per_row(group)});
    }
    const std::optional<std::int32_t> slot = slots_.acquire(needs);
    if (!slot) return false;
    place = places_.emplace(id, Place{.slot = *slot, .tables = {}, .more = {}}).first;
    place->second.tables.resize(num_ranges());
    for (std::size_t group = 0; group < num_ranges(); ++group)
      slots_.leave_front(slots_.range_of(*slot, group), first_block(id, group));
  }
  growing_in_ = place->second.slot;
  CHECK(PagedKvManager::grow(id, num_tokens, copies));
  if (fresh || to_show > 0) show_growth(id, place->second, rows);
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    const std::int32_t range = slots_.range_of(growing_in_, group), end = rows * per_row(group);
    if (fresh) slots_.show_eagerly(range, end, per_row(group));
    // The next token needs another row, which nobody writes into before.
    if (blocks_for(std::int64_t{num_tokens} + 1) > rows) slots_.show_ahead(range, end, per_row(group));
  }
  std::vector<KvTable>& tables = place->second.more;
  tables.clear();
  for (std::size_t group = 1; group < groups().size(); ++group) {
    if (group >= num_ranges()) {  // a state's
      tables.push_back(pages_of(id, group));
      continue;
    }
    tables.push_back({.blocks = std::span<const BlockId>(place->second.tables[group])
                                    .subspan(static_cast<std::size_t>(first_block(id, group))),
                      .first_row = pages_of(id, group).first_row});
  }
  return true;
}

// Maps the changes at the end: a copied last row, and new ones.
void VirtualKvManager::show_growth(SequenceId id, Place& place, std::int32_t rows) {
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    const std::int32_t range = slots_.range_of(place.slot, group), first = first_block(id, group);
    std::vector<BlockId>& table = place.tables[group];
    const auto held = static_cast<std::int32_t>(table.size());
    CHECK(rows * per_row(group) <= slots_.length(range));
    const std::int32_t from = std::max(first, held - per_row(group));
    slots_.show(range, from, pages_of(id, group).blocks.subspan(static_cast<std::size_t>(from - first)));
    for (std::int32_t at = held; at < rows * per_row(group); ++at)
      table.push_back(slots_.block_id(range, at));
  }
}

// Blocks that count as free may have to be made ready first, and that may fail.
std::int32_t VirtualKvManager::most_tokens(SequenceId id, std::int32_t num_tokens) {
  const std::int32_t most = PagedKvManager::most_tokens(id, num_tokens);
  if (groups().size() == 1 && groups().front().kind == KvKind::full) return most;
  const std::int32_t computed = table(id).num_computed;
  std::int32_t tokens = most;
  while (tokens > computed &&
         !(make_available(blocks_to_grow(id, tokens)) && slots_.make_space(pages_to_show(id, tokens))))
    tokens = (tokens - 1) / block_size() * block_size();
  return std::max(tokens, computed);
}

void VirtualKvManager::computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) {
  PagedKvManager::computed(id, tokens, num_computed);
  const auto place = places_.find(id);
  CHECK(place != places_.end());
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    if (groups()[group].kind == KvKind::window)
      slots_.leave_front(slots_.range_of(place->second.slot, group), first_block(id, group));
  }
}

void VirtualKvManager::shrink(SequenceId id, std::int32_t num_tokens) {
  PagedKvManager::shrink(id, num_tokens);
  const auto place = places_.find(id);
  CHECK(place != places_.end());
  for (std::size_t group = 0; group < num_ranges(); ++group) {
    std::vector<BlockId>& blocks = place->second.tables[group];
    const auto held = static_cast<std::size_t>(blocks_for(table(id).num_tokens) * per_row(group));
    if (blocks.size() == held) continue;
    blocks.resize(held);
    slots_.shrink(slots_.range_of(place->second.slot, group), static_cast<std::int32_t>(held));
  }
}

void VirtualKvManager::leave_slot(SequenceId id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  slots_.release(place->second.slot);
  places_.erase(place);
}

void VirtualKvManager::free(SequenceId id) {
  PagedKvManager::free(id);  // first: pages that become free are held back for the slot
  leave_slot(id);
}

bool VirtualKvManager::swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  if (!PagedKvManager::swap_out(ids, copies)) return false;
  for (const SequenceId id : ids) leave_slot(id);
  return true;
}

bool VirtualKvManager::swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) {
  return make_available(swap_cost(ids).pages) && PagedKvManager::swap_in(ids, copies);
}

KvTables VirtualKvManager::tables(SequenceId id) const {
  CHECK(!table(id).swapped);
  const auto place = places_.find(id);
  if (place == places_.end()) return {};
  if (num_ranges() == 0) return {.blocks = pages_of(id, 0).blocks};  // states alone
  return {.blocks = std::span<const BlockId>(place->second.tables.front())
                        .subspan(static_cast<std::size_t>(first_block(id, 0))),
          .first_row = pages_of(id, 0).first_row,
          .more = place->second.more};
}

std::optional<BlockId> VirtualKvManager::first_virtual_block(SequenceId id) const {
  if (num_ranges() == 0) return std::nullopt;
  const std::span<const BlockId> blocks = tables(id).blocks;
  return blocks.empty() ? std::nullopt : std::optional(blocks.front());
}

Status VirtualKvManager::check_alone(std::int64_t num_sequences, std::int64_t num_tokens,
                                     std::int64_t num_needed) const {
  const SlotMapConfig& slots = slots_.config();
  // As make_space() counts when nothing is shown in vain: every page of every sequence may lie apart from its
  // neighbour.
  const std::int64_t regions = 1 + 2 * pages_for(token_groups(groups()), num_tokens, num_sequences, 0,
                                                 config().whole_prompts ? num_tokens : 0);
  if (slots.max_regions > 0 && regions > slots.max_regions) {
    return invalid_argument(concat("The request can never fit: ", num_sequences, " sequences of ", num_tokens,
                                   " tokens may need ", regions, " mappings, and the system allows ",
                                   slots.max_regions,
                                   " (vm.max_map_count). A larger --kv-page-size needs fewer."))
        .with_param("max_tokens");
  }
  const std::int64_t sure =
      (config().num_created > 0 ? config().num_created : config().num_blocks) - num_pinned_blocks();
  if (num_needed > sure) {
    return invalid_argument(concat("The request can never be sure to fit: it may need ", num_needed,
                                   " KV pages, and only ", std::max<std::int64_t>(0, sure),
                                   " are kept ready. --kv-precreate-pages makes all of them ready."))
        .with_param("max_tokens");
  }
  return ok_status();
}

void VirtualKvManager::check_invariants() const {
  PagedKvManager::check_invariants();
  slots_.check_invariants();
  std::vector<char> taken(static_cast<std::size_t>(slots_.config().num_slots), 0);
  for (const auto& [id, place] : places_) {
    CHECK(!table(id).swapped);
    CHECK(!taken[static_cast<std::size_t>(place.slot)]);
    taken[static_cast<std::size_t>(place.slot)] = 1;
    for (std::size_t group = 0; group < num_ranges(); ++group) {
      const std::span<const BlockId> pages = pages_of(id, group).blocks;
      const std::int32_t range = slots_.range_of(place.slot, group), first = first_block(id, group);
      const std::vector<BlockId>& table = place.tables[group];
      CHECK(static_cast<std::size_t>(first) + pages.size() == table.size());
      for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::int32_t at = first + static_cast<std::int32_t>(i);
        CHECK(table[static_cast<std::size_t>(at)] == slots_.block_id(range, at));
        CHECK(slots_.shown(range, at) == pages[i]);
      }
    }
  }
  CHECK(static_cast<std::int32_t>(places_.size()) + slots_.num_idle() == slots_.config().num_slots);
  CHECK(num_uncreated() >= 0);
}

}  // namespace pagoda
