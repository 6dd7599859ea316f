#pragma once
// PagedSteps: the calls of KvManager, which a scheduler makes in each step, on paged memory; see
// kv_manager.h. This class only determines the order in which the parts are called. Threads: none; owned by
// the engine thread.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kv_cache/kv_manager.h"
#include "kv_cache/paged_parts.h"

namespace pagoda {

class PagedSteps {
 public:
  explicit PagedSteps(PagedParts& parts) : parts_(parts) {}  // borrows `parts`

  std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                            bool allow_cache);
  [[nodiscard]] bool promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk);
  std::int64_t pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const;
  std::int32_t most_tokens(SequenceId id, std::int32_t num_tokens) const;
  std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const;
  // True if promises leave enough free pages, created or not, for grow().
  bool can_grow(SequenceId id, std::int32_t num_tokens) const;
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies);
  // The same, with rows from `new_row`.
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, const BlockTables::NewRow& new_row,
                          std::vector<BlockCopy>& copies);
  // A NewRow that appends any row of the pool to `pages`; the pool must have one.
  void take_row(std::size_t group, std::vector<BlockId>& pages);
  void copy_states(SequenceId id, std::int32_t index, std::int32_t num_tokens,
                   std::vector<StateCopy>& copies);
  void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed);
  void shrink(SequenceId id, std::int32_t num_tokens);
  KvTables tables(SequenceId id) const;

 private:
  void map_pinned(KvSequence& sequence, std::span<const TokenId> tokens);

  PagedParts& parts_;
};

}  // namespace pagoda
