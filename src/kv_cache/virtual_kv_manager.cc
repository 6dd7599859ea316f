#include "kv_cache/virtual_kv_manager.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::int64_t kPagesPerGrant = 64;
constexpr std::int32_t kPauseAfterRefusal = 64;  // asks

}  // namespace

VirtualKvManager::VirtualKvManager(const VirtualKvConfig& config)
    : PagedKvManager(config.pages), slots_(config.slots, mutable_pool()), may_create_(config.may_create) {
  CHECK(config.pages.num_created <= config.pages.num_blocks);
  CHECK(num_uncreated() == 0 || may_create_);
  CHECK(groups().size() == 1 && groups().front().pages_per_row == 1 && groups().front().kind == KvKind::full);
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
  for (const std::int32_t tokens : num_tokens) entries += tokens / block_size() + 1;
  return make_available(num_blocks) && slots_.make_room(entries);
}

BlockId VirtualKvManager::new_block(SequenceId, std::size_t at, std::span<const BlockId> table) {
  const BlockId previous = at > 0 ? table[at - 1] : kNoPage;
  return *slots_.allocate(growing_in_, static_cast<std::int32_t>(at), previous);
}

bool VirtualKvManager::grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) {
  const std::int32_t wanted =
      std::max(blocks_for(num_tokens), static_cast<std::int32_t>(blocks_of(id).size()));
  CHECK(wanted <= slots_.config().blocks_per_slot);
  const std::int64_t more = blocks_to_grow(id, num_tokens);
  auto place = places_.find(id);
  const bool fresh = place == places_.end();
  if (!can_grow(id, num_tokens) || !make_available(more) || !slots_.make_room(fresh ? wanted : more))
    return false;
  if (fresh) {
    const std::optional<std::int32_t> slot = slots_.acquire(blocks_of(id), wanted);
    if (!slot) return false;
    place = places_.emplace(id, Place{.slot = *slot, .table = {}}).first;
  }
  const std::int32_t slot = growing_in_ = place->second.slot;
  CHECK(PagedKvManager::grow(id, num_tokens, copies));
  std::vector<BlockId>& table = place->second.table;
  if (fresh || more > 0) {
    // What has changed is at the end: a copied last page, and new ones.
    const auto held = static_cast<std::int32_t>(table.size());
    const std::int32_t first = std::max(0, held - 1);
    slots_.show(slot, first, blocks_of(id).subspan(static_cast<std::size_t>(first)));
    for (std::int32_t at = held; at < wanted; ++at) table.push_back(slots_.block_id(slot, at));
  }
  if (fresh) slots_.show_eagerly(slot, wanted);
  // The next token needs another page, which nobody writes into before.
  if (blocks_for(std::int64_t{num_tokens} + 1) > wanted) slots_.show_ahead(slot, wanted);
  return true;
}

void VirtualKvManager::shrink(SequenceId id, std::int32_t num_tokens) {
  PagedKvManager::shrink(id, num_tokens);
  const auto place = places_.find(id);
  CHECK(place != places_.end());
  const std::size_t held = blocks_of(id).size();
  if (place->second.table.size() == held) return;
  place->second.table.resize(held);
  slots_.shrink(place->second.slot, static_cast<std::int32_t>(held));
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

std::span<const BlockId> VirtualKvManager::block_table(SequenceId id) const {
  CHECK(!is_swapped(id));
  const auto place = places_.find(id);
  if (place == places_.end()) return {};
  return place->second.table;
}

Status VirtualKvManager::check_alone(std::int64_t num_sequences, std::int64_t num_tokens,
                                     std::int64_t num_needed) const {
  const SlotMapConfig& slots = slots_.config();
  // As make_room() counts when nothing is shown in vain: every page of every sequence may lie apart from its
  // neighbour.
  const std::int64_t regions = 1 + 2 * num_sequences * blocks_for(num_tokens);
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
    CHECK(!is_swapped(id));
    CHECK(!taken[static_cast<std::size_t>(place.slot)]);
    taken[static_cast<std::size_t>(place.slot)] = 1;
    const std::span<const BlockId> pages = blocks_of(id);
    CHECK(pages.size() == place.table.size());
    for (std::size_t i = 0; i < pages.size(); ++i) {
      CHECK(place.table[i] == slots_.block_id(place.slot, static_cast<std::int32_t>(i)));
      CHECK(slots_.shown(place.slot, static_cast<std::int32_t>(i)) == pages[i]);
    }
  }
  CHECK(static_cast<std::int32_t>(places_.size()) + slots_.num_idle() == slots_.config().num_slots);
  CHECK(num_uncreated() >= 0);
}

}  // namespace pagoda
