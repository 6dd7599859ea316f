// Promises of PagedKvManager: a prompt that was let in can finish. Rows are handed out chunk by chunk; what
// is still to come is a number set aside, which nobody else may take.
#include <algorithm>

#include "base/check.h"
#include "kv_cache/paged_kv_manager.h"

namespace pagoda {

// With windows this is less than all rows to come, for rows behind the window come back. Let a sequence hold
// E rows of a group that nobody shares; while it computes tokens [c, c + chunk) it needs rows_at_once() of
// them at most. Whatever else it takes, it has given back: of the rows that it takes from here on, net, no
// more than rows_at_once() - E are missing at any time. Rows that others share do not come back when it
// leaves them.
std::int64_t PagedKvManager::set_aside_for(const Table& table, std::int32_t num_tokens,
                                           std::int32_t num_promised, std::int32_t chunk) const {
  if (num_promised <= table.num_computed) return 0;
  std::int64_t pages = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const Rows& rows = table.groups[group];
    const std::int64_t end = std::max(rows.end, rows_for(group, num_tokens));
    const bool shared = must_copy(table, group, num_promised),
               copied = shared && num_tokens > table.num_computed;
    std::int64_t left =
        std::max<std::int64_t>(0, rows_for(group, num_promised) - end) + (shared && !copied ? 1 : 0);
    if (groups_[group].kind == KvKind::window && left > 0) {
      std::int64_t own = end - rows.end + (copied ? 1 : 0);
      for (std::int32_t i = rows.first; i < rows.end; ++i) {
        if (shared && i == next_row(table, group)) continue;  // it comes back when its copy is there
        own += pool_.ref_count(row(table, group, i)) == 1 ? 1 : 0;
      }
      left = std::clamp<std::int64_t>(groups_[group].rows_at_once(num_promised, chunk) - own, 0, left);
    }
    pages += left * groups_[group].pages_per_row;
  }
  return pages;
}

std::int64_t PagedKvManager::set_aside() const {
  std::int64_t pages = 0;
  for (const SequenceId id : promised_) {
    const Table& table = at(id);
    pages += set_aside_for(table, table.num_tokens, table.num_promised, table.promised_chunk);
  }
  return pages;
}

std::int64_t PagedKvManager::pages_to_promise(SequenceId id, std::int32_t num_tokens,
                                              std::int32_t chunk) const {
  const Table& table = at(id);
  return set_aside_for(table, table.num_tokens, num_tokens, chunk);
}

bool PagedKvManager::promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) {
  Table& table = at(id);
  CHECK(!table.swapped && chunk >= 1);
  if (num_tokens <= table.num_computed || num_tokens <= table.num_promised) return true;
  const std::int64_t before =
      set_aside_for(table, table.num_tokens, table.num_promised, table.promised_chunk);
  if (set_aside_for(table, table.num_tokens, num_tokens, chunk) > num_available_blocks() + before)
    return false;
  table.num_promised = num_tokens;
  table.promised_chunk = chunk;
  promised_.insert(id);
  return true;
}

void PagedKvManager::end_promise(SequenceId id, Table& table) {
  if (table.num_promised == 0) return;
  table.num_promised = 0;
  promised_.erase(id);
}

// Others keep what is set aside for them, and this one what it will lack after that.
bool PagedKvManager::can_grow(const Table& table, std::int32_t num_tokens) const {
  const std::int64_t needed = pages_to_grow(table, num_tokens);
  if (needed == 0) return true;
  if (needed > num_free_blocks()) return false;
  if (promised_.empty()) return true;
  const std::int64_t before =
      set_aside_for(table, table.num_tokens, table.num_promised, table.promised_chunk);
  const std::int64_t after = set_aside_for(table, num_tokens, table.num_promised, table.promised_chunk);
  return needed + after <= num_available_blocks() + before;
}

std::int32_t PagedKvManager::most_tokens(SequenceId id, std::int32_t num_tokens) {
  const Table& table = at(id);
  if (can_grow(table, num_tokens)) return num_tokens;
  std::int32_t most = (num_tokens - 1) / config_.block_size * config_.block_size;
  while (most > table.num_computed && !can_grow(table, most)) most -= config_.block_size;
  return std::max(most, table.num_computed);
}

}  // namespace pagoda
