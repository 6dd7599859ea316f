#pragma once
// Promises: a prompt that was let in can finish. Its rows are handed out chunk by chunk; those still to come
// are a number of pages that is set aside, which no other sequence may take.
// Invariant: what is set aside over all sequences is free.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <unordered_map>

#include "kv_cache/block_tables.h"

namespace pagoda {

class Promises {
 public:
  // Borrows all three.
  Promises(const KvGeometry& geometry, const BlockTables& tables, const BlockPool& pool)
      : geometry_(geometry), tables_(tables), pool_(pool) {}

  // Pages that a promise of `num_tokens` tokens by `chunk` a step sets aside for this table.
  std::int64_t needed(const BlockTable& table, std::int32_t num_tokens, std::int32_t chunk) const;
  // Makes it, if there are enough of `num_free` pages beside what is set aside for others.
  [[nodiscard]] bool make(const BlockTable& table, std::int32_t num_tokens, std::int32_t chunk,
                          std::int64_t num_free);
  // The table has got as far as was promised, or leaves. It must stay where it is until then.
  void end(const BlockTable& table) { promised_.erase(&table); }
  void computed(const BlockTable& table);  // ends what is reached

  std::int64_t set_aside() const;  // over all
  // Whether the table can grow by free pages that are not set aside for others, and for what it lacks itself
  // after that.
  bool can_grow(const BlockTable& table, std::int32_t num_tokens, std::int64_t num_free) const;
  // How far it can grow: to a row's end or to `num_tokens`.
  std::int32_t most_tokens(const BlockTable& table, std::int32_t num_tokens, std::int64_t num_free) const;

 private:
  struct Promise {
    std::int32_t num_tokens = 0, chunk = 1;
  };
  Promise of(const BlockTable& table) const;
  // If the table had room for `num_tokens` tokens.
  std::int64_t set_aside(const BlockTable& table, std::int32_t num_tokens, Promise promise) const;

  const KvGeometry& geometry_;
  const BlockTables& tables_;
  const BlockPool& pool_;
  std::unordered_map<const BlockTable*, Promise> promised_;
};

}  // namespace pagoda
