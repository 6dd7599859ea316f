#pragma once
// KvGroup: the layout of a sequence's cache for all layers of one kind, as plain numbers. A group's table is
// a list of rows; a row holds tokens_per_row tokens of all the group's layers and takes pages_per_row equal
// pages, anywhere in the pool. Where a layer's bytes lie within a page is decided in
// model_runner/kv_groups_plan.h. A model has any number of groups; encoders, which keep nothing, have none. A
// group of kind `state` has one row per sequence, whatever its length: the state of recurrent layers, which
// every step updates in place. It is valid at exactly num_computed tokens. Source: vLLM's and SGLang's hybrid
// KV caches.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "request/ids.h"

namespace pagoda {

enum class KvKind : std::uint8_t {
  full,    // a position attends to all earlier positions
  window,  // a position attends to the last `window` positions, itself included
  state,   // a position reads the recurrent state left by the earlier ones
};

inline const char* kv_kind_name(KvKind kind) {
  return kind == KvKind::full ? "full" : kind == KvKind::window ? "window" : "state";
}

struct KvGroup {
  KvKind kind = KvKind::full;
  std::int32_t window = 0;           // kind window: at least 1
  std::int32_t tokens_per_row = 16;  // kind state: as the other groups; its single row holds any number
  std::int32_t pages_per_row = 1;
  std::int64_t state_bytes = 0;  // kind state: bytes read and written per sequence and step, without padding

  bool operator==(const KvGroup&) const = default;

  bool is_state() const { return kind == KvKind::state; }
  std::int64_t rows_for(std::int64_t num_tokens) const {
    if (is_state()) return num_tokens > 0 ? 1 : 0;
    return (num_tokens + tokens_per_row - 1) / tokens_per_row;
  }
  std::int64_t whole_rows(std::int64_t num_tokens) const { return num_tokens / tokens_per_row; }
  // First row visible to the position after `num_tokens` tokens.
  std::int32_t first_visible_row(std::int32_t num_tokens) const {
    return kind == KvKind::window ? std::max(0, num_tokens - window + 1) / tokens_per_row : 0;
  }
  // First row that is kept once `num_tokens` tokens are computed. Keeps the window before the last row
  // boundary, not only the window of the next position, so that the prefix up to that boundary can still be
  // found in the prefix cache.
  std::int32_t first_kept_row(std::int32_t num_tokens) const {
    return kind == KvKind::window
               ? std::max(0, num_tokens / tokens_per_row * tokens_per_row - window) / tokens_per_row
               : 0;
  }
  // Maximum number of rows that one sequence holds at once while it computes `chunk` tokens per step.
  std::int64_t rows_at_once(std::int64_t num_tokens, std::int64_t chunk) const {
    const std::int64_t all = rows_for(num_tokens);
    return kind != KvKind::window ? all : std::min(all, rows_for(window) + rows_for(chunk - 1) + 1);
  }
};

inline bool has_states(std::span<const KvGroup> groups) {
  return std::any_of(groups.begin(), groups.end(), [](const KvGroup& group) { return group.is_state(); });
}

// Maximum number of pages that `num_sequences` sequences of `num_tokens` tokens hold at once. They share the
// first `num_shared` tokens and compute `chunk` tokens per step (0: one row's tokens, the minimum).
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

// Maximum number of tokens, in whole rows, that one sequence can hold in `num_pages` pages; at most 2^31.
// `whole`: the prompt is computed in a single step.
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

// A sequence's table in one KV group: pages_per_row entries for each row from `first_row` on. Earlier rows
// have been released.
struct KvTable {
  std::span<const BlockId> blocks = {};
  std::int32_t first_row = 0;
};

// The single group of a model whose layers all use full attention, with blocks of `tokens_per_row` tokens.
inline std::vector<KvGroup> one_full_group(std::int32_t tokens_per_row) {
  return {KvGroup{.tokens_per_row = tokens_per_row}};
}

}  // namespace pagoda
