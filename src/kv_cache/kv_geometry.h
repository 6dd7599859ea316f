#pragma once
// KvGeometry: how many pages of the KV pool sequences take, from the model's KV groups alone. It knows no
// sequence and no pool. Nobody else divides by a block size.
// Threads: immutable, safe from any.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "request/kv_groups.h"

namespace pagoda {

// The groups that grow with the tokens; those of states come after them.
std::span<const KvGroup> token_groups(std::span<const KvGroup> groups);

class KvGeometry {
 public:
  // `whole_prompts`: a prompt is computed in one step, however long it is.
  KvGeometry(std::int32_t block_size, std::vector<KvGroup> groups, bool whole_prompts = false)
      : block_size_(block_size), whole_prompts_(whole_prompts), groups_(std::move(groups)) {}

  std::int32_t block_size() const { return block_size_; }
  // Pages are counted over all of them.
  const std::vector<KvGroup>& groups() const { return groups_; }
  bool has_windows() const;
  bool has_states() const { return pagoda::has_states(groups_); }
  bool first_sees_all() const;  // the first group keeps every token

  // The most pages that `num_sequences` sequences of `num_tokens` tokens hold at once, the first `num_shared`
  // tokens of them in common. They are computed in small steps, or the whole prompt in one.
  std::int64_t pages_alone(std::int64_t num_tokens, std::int64_t num_sequences = 1,
                           std::int64_t num_shared = 0, bool whole_prompt = false) const;
  // The longest sequence that so many pages hold, in tokens.
  std::int64_t tokens_alone(std::int64_t num_pages) const;
  // The most pages that any one sequence takes for `num_tokens` more tokens.
  std::int64_t pages_to_go_on(std::int64_t num_tokens) const;

 private:
  std::int32_t block_size_;
  bool whole_prompts_;
  std::vector<KvGroup> groups_;
};

}  // namespace pagoda
