#include "kv_cache/kv_geometry.h"

#include <algorithm>

namespace pagoda {

std::span<const KvGroup> token_groups(std::span<const KvGroup> groups) {
  const auto first = std::ranges::find_if(groups, &KvGroup::is_state);
  return groups.first(static_cast<std::size_t>(first - groups.begin()));
}

bool KvGeometry::has_windows() const {
  return std::ranges::any_of(groups_, [](const KvGroup& group) { return group.kind == KvKind::window; });
}

bool KvGeometry::first_sees_all() const { return !groups_.empty() && groups_.front().kind == KvKind::full; }

std::int64_t KvGeometry::pages_alone(std::int64_t num_tokens, std::int64_t num_sequences,
                                     std::int64_t num_shared, bool whole_prompt) const {
  const bool whole = whole_prompt || whole_prompts_;
  // With windows or states, sequences that resume together share nothing once the first one has moved on.
  const bool shares = !has_windows() && !has_states();
  return pages_for(groups_, num_tokens, num_sequences, shares ? num_shared : 0, whole ? num_tokens : 0);
}

std::int64_t KvGeometry::tokens_alone(std::int64_t num_pages) const {
  return tokens_in(groups_, num_pages, whole_prompts_);
}

std::int64_t KvGeometry::pages_to_go_on(std::int64_t num_tokens) const {
  std::int64_t pages = 0;
  for (const KvGroup& group : groups_) {
    const std::int64_t rows = 2 + group.whole_rows(num_tokens);
    pages += group.pages_per_row * (group.is_state() ? 1
                                    : group.kind == KvKind::full
                                        ? rows
                                        : std::min(rows, group.rows_for(group.window) + 2));
  }
  return pages;
}

}  // namespace pagoda
