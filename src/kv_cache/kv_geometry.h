#pragma once
// KvGeometry: the number of pages of the KV pool that sequences need, from the model's KV groups alone. Knows
// no sequence and no pool. Only kv_cache/ divides by a block size.
// Threads: immutable, safe from any.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "request/kv_groups.h"

namespace pagoda {

// The groups that grow with the tokens; groups of states come after them.
std::span<const KvGroup> token_groups(std::span<const KvGroup> groups);

class KvGeometry {
 public:
  // `whole_prompts`: prompts are computed in one step, whatever their length.
  KvGeometry(std::int32_t block_size, std::vector<KvGroup> groups, bool whole_prompts = false)
      : block_size_(block_size), whole_prompts_(whole_prompts), groups_(std::move(groups)) {}

  std::int32_t block_size() const { return block_size_; }
  // Page counts are sums over all groups.
  const std::vector<KvGroup>& groups() const { return groups_; }
  bool has_windows() const;
  bool has_states() const { return pagoda::has_states(groups_); }
  bool first_sees_all() const;  // the first group keeps every token

  // Maximum number of pages that `num_sequences` sequences of `num_tokens` tokens hold at once, sharing the
  // first `num_shared` tokens. They are computed in small steps, or with the whole prompt in one step.
  std::int64_t pages_alone(std::int64_t num_tokens, std::int64_t num_sequences = 1,
                           std::int64_t num_shared = 0, bool whole_prompt = false) const;
  // Length in tokens of the longest sequence that fits into `num_pages` pages.
  std::int64_t tokens_alone(std::int64_t num_pages) const;
  // Maximum number of pages that any one sequence takes for `num_tokens` more tokens.
  std::int64_t pages_to_go_on(std::int64_t num_tokens) const;

 private:
  std::int32_t block_size_;
  bool whole_prompts_;
  std::vector<KvGroup> groups_;
};

}  // namespace pagoda
