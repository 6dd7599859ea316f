#pragma once
// KvGroup: what all layers of one kind keep of a sequence, as plain numbers. A group's table is a list of
// rows; a row holds tokens_per_row tokens of all its layers and takes pages_per_row equal pages of the pool,
// anywhere. Not where the bytes of a layer lie in a page: that is model_runner/kv_groups_plan.h. A model has
// one group, or several, or none (nothing is kept: encoders). A group of kind `state` has one row a sequence,
// however long it is: what recurrent layers keep, written in place by every step. It is right at exactly
// num_computed tokens. Source: vLLM's and SGLang's hybrid KV caches.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "request/ids.h"

namespace pagoda {

enum class KvKind : std::uint8_t {
  full,    // a position sees every one before it
  window,  // it sees the last `window`, itself included
  state,   // it sees what the ones before it have made of a state
};

inline const char* kv_kind_name(KvKind kind) {
  return kind == KvKind::full ? "full" : kind == KvKind::window ? "window" : "state";
}

struct KvGroup {
  KvKind kind = KvKind::full;
  std::int32_t window = 0;           // kind window: 1 or more
  std::int32_t tokens_per_row = 16;  // kind state: as the other groups'; its one row has any number
  std::int32_t pages_per_row = 1;
  std::int64_t state_bytes = 0;  // kind state: read and written by a step for a sequence, padding apart

  bool operator==(const KvGroup&) const = default;

  bool is_state() const { return kind == KvKind::state; }
  std::int64_t rows_for(std::int64_t num_tokens) const {
    if (is_state()) return num_tokens > 0 ? 1 : 0;
    return (num_tokens + tokens_per_row - 1) / tokens_per_row;
  }
  std::int64_t whole_rows(std::int64_t num_tokens) const { return num_tokens / tokens_per_row; }
  // The first row that a position behind `num_tokens` tokens still sees.
  std::int32_t first_visible_row(std::int32_t num_tokens) const {
    return kind == KvKind::window ? std::max(0, num_tokens - window + 1) / tokens_per_row : 0;
  }
  // The first row that is kept once `num_tokens` tokens are computed: what the next position sees, and what
  // the last one, and the first of its row, have seen. So a sequence's end at a row's border can be found
  // again.
  std::int32_t first_kept_row(std::int32_t num_tokens) const {
    return kind == KvKind::window
               ? std::max(0, num_tokens / tokens_per_row * tokens_per_row - window) / tokens_per_row
               : 0;
  }
  // Rows that one sequence has at once, at most, while it computes `chunk` tokens in a step.
  std::int64_t rows_at_once(std::int64_t num_tokens, std::int64_t chunk) const {
    const std::int64_t all = rows_for(num_tokens);
    return kind != KvKind::window ? all : std::min(all, rows_for(window) + rows_for(chunk - 1) + 1);
  }
};

inline bool has_states(std::span<const KvGroup> groups) {
  return std::any_of(groups.begin(), groups.end(), [](const KvGroup& group) { return group.is_state(); });
}

// Pages that `num_sequences` sequences of `num_tokens` tokens take at once, at most, the first `num_shared`
// of them held in common, computed `chunk` tokens at a time (`chunk` 0: a row's, the least).
inline std::int64_t pages_for(std::span<const KvGroup> groups, std::int64_t num_tokens,
                              std::int64_t num_sequences = 1, std::int64_t num_shared = 0,
                              std::int64_t chunk = 0) {
  std::int64_t pages = 0;
  for (const KvGroup& group : groups) {
    const std::int64_t rows = group.rows_at_once(num_tokens, chunk > 0 ? chunk : group.tokens_per_row);
    const std::int64_t shared = group.kind == KvKind::full ? std::min(rows, group.whole_rows(num_shared)) : 0;
    pages += group.pages_per_row * (shared + num_sequences * (rows - shared));
  }
  return pages;
}

// Tokens that one sequence can have with so many pages, in whole rows; 2^31 and less. Whole: its prompt is
// computed in one step.
inline std::int64_t tokens_in(std::span<const KvGroup> groups, std::int64_t num_pages, bool whole = false) {
  const std::int64_t size = groups.empty() ? 1 : groups.front().tokens_per_row;
  std::int64_t low = 0, high = std::numeric_limits<std::int32_t>::max() / size;  // rows
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (pages_for(groups, middle * size, 1, 0, whole ? middle * size : 0) <= num_pages)
      low = middle;
    else
      high = middle - 1;
  }
  return low * size;
}

// A sequence's part of one KV group: pages_per_row entries for each row from `first_row` on. Rows before that
// have been given back.
struct KvTable {
  std::span<const BlockId> blocks = {};
  std::int32_t first_row = 0;
};

// The one group of a model all of whose layers see everything, in blocks of so many tokens.
inline std::vector<KvGroup> one_full_group(std::int32_t tokens_per_row) {
  return {KvGroup{.tokens_per_row = tokens_per_row}};
}

}  // namespace pagoda
