#include "kv_cache/promises.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {

// With windows, this is less than all rows to come, because rows behind the window are released. Let a
// sequence hold E rows of a group that are not shared. While it computes tokens [c, c + chunk), it needs at
// most rows_at_once() of them; everything else it took has been released. So of the rows that it takes from
// here on, no more than rows_at_once() - E (net) are missing at any time. Shared rows are not freed when the
// sequence leaves them.
std::int64_t Promises::set_aside(const BlockTable& table, std::int32_t num_tokens, Promise promise) const {
  if (promise.num_tokens <= table.num_computed) return 0;
  std::int64_t pages = 0;
  for (std::size_t group = 0; group < geometry_.groups().size(); ++group) {
    const KvGroup& of = geometry_.groups()[group];
    const GroupRows& rows = table.groups[group];
    const std::int64_t end = std::max<std::int64_t>(rows.end, of.rows_for(num_tokens));
    const bool shared = tables_.must_copy(table, group, promise.num_tokens),
               copied = shared && num_tokens > table.num_computed;
    std::int64_t left =
        std::max<std::int64_t>(0, of.rows_for(promise.num_tokens) - end) + (shared && !copied ? 1 : 0);
    if (of.kind == KvKind::window && left > 0) {
      std::int64_t own = end - rows.end + (copied ? 1 : 0);
      for (std::int32_t i = rows.first; i < rows.end; ++i) {
        if (shared && i == tables_.next_row(table, group)) continue;  // released once its copy exists
        own += pool_.ref_count(tables_.row(table, group, i)) == 1 ? 1 : 0;
      }
      left = std::clamp<std::int64_t>(of.rows_at_once(promise.num_tokens, promise.chunk) - own, 0, left);
    }
    pages += left * of.pages_per_row;
  }
  return pages;
}

Promises::Promise Promises::of(const BlockTable& table) const {
  const auto it = promised_.find(&table);
  return it == promised_.end() ? Promise{} : it->second;
}

std::int64_t Promises::set_aside() const {
  std::int64_t pages = 0;
  for (const auto& [table, promise] : promised_) pages += set_aside(*table, table->num_tokens, promise);
  return pages;
}

std::int64_t Promises::needed(const BlockTable& table, std::int32_t num_tokens, std::int32_t chunk) const {
  return set_aside(table, table.num_tokens, {.num_tokens = num_tokens, .chunk = chunk});
}

bool Promises::make(const BlockTable& table, std::int32_t num_tokens, std::int32_t chunk,
                    std::int64_t num_free) {
  CHECK(!table.swapped && chunk >= 1);
  const Promise before = of(table);
  if (num_tokens <= table.num_computed || num_tokens <= before.num_tokens) return true;
  const std::int64_t others = set_aside() - set_aside(table, table.num_tokens, before);
  if (needed(table, num_tokens, chunk) + others > num_free) return false;
  promised_[&table] = {.num_tokens = num_tokens, .chunk = chunk};
  return true;
}

void Promises::computed(const BlockTable& table) {
  if (promised_.empty()) return;
  const auto it = promised_.find(&table);
  if (it != promised_.end() && table.num_computed >= it->second.num_tokens) promised_.erase(it);
}

bool Promises::can_grow(const BlockTable& table, std::int32_t num_tokens, std::int64_t num_free) const {
  const std::int64_t pages = tables_.pages_to_grow(table, num_tokens);
  if (pages == 0) return true;
  if (pages > num_free) return false;
  if (promised_.empty()) return true;
  const Promise own = of(table);
  const std::int64_t others = set_aside() - set_aside(table, table.num_tokens, own);
  return pages + set_aside(table, num_tokens, own) + others <= num_free;
}

std::int32_t Promises::most_tokens(const BlockTable& table, std::int32_t num_tokens,
                                   std::int64_t num_free) const {
  if (can_grow(table, num_tokens, num_free)) return num_tokens;
  const std::int32_t size = geometry_.block_size();
  std::int32_t most = (num_tokens - 1) / size * size;
  while (most > table.num_computed && !can_grow(table, most, num_free)) most -= size;
  return std::max(most, table.num_computed);
}

}  // namespace pagoda
