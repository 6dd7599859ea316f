#pragma once
// KvGroup: what all layers of one kind keep of a sequence, as plain numbers. A group's table is a list of
// rows; a row holds tokens_per_row tokens of all its layers and takes pages_per_row equal pages of the pool,
// anywhere. Not where the bytes of a layer lie in a page: that is model_runner/kv_groups_plan.h. A model has
// one group, or several, or none (nothing is kept: encoders). Source: vLLM's and SGLang's hybrid KV caches.
#include <cstdint>
#include <vector>

namespace pagoda {

enum class KvKind : std::uint8_t {
  full,    // a position sees every one before it
  window,  // it sees the last `window`, itself included
};

struct KvGroup {
  KvKind kind = KvKind::full;
  std::int32_t window = 0;  // of kind window: 1 or more
  std::int32_t tokens_per_row = 16;
  std::int32_t pages_per_row = 1;

  bool operator==(const KvGroup&) const = default;

  std::int64_t rows_for(std::int64_t num_tokens) const {
    return (num_tokens + tokens_per_row - 1) / tokens_per_row;
  }
  std::int64_t whole_rows(std::int64_t num_tokens) const { return num_tokens / tokens_per_row; }
};

// The one group of a model all of whose layers see everything, in blocks of so many tokens.
inline std::vector<KvGroup> one_full_group(std::int32_t tokens_per_row) {
  return {KvGroup{.tokens_per_row = tokens_per_row}};
}

}  // namespace pagoda
