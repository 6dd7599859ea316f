#pragma once
// Promises: guarantee that an admitted prompt can finish. Its rows are handed out chunk by chunk; the rows
// still to come are a number of pages set aside, which no other sequence may take. Invariant: all pages that
// are set aside are free. Threads: none; owned by the engine thread.
#include <cstdint>
#include <unordered_map>

#include "kv_cache/block_tables.h"

namespace pagoda {

class Promises {
 public:
  // Borrows all arguments.
  Promises(const KvGeometry& geometry, const BlockTables& tables, const BlockPool& pool)
      : geometry_(geometry), tables_(tables), pool_(pool) {}

  // Number of pages that a promise of `num_tokens` tokens, by `chunk` per step, sets aside for this table.
  std::int64_t needed(const BlockTable& table, std::int32_t num_tokens, std::int32_t chunk) const;
  // Makes the promise, if `num_free` pages suffice after what is set aside for others.
  [[nodiscard]] bool make(const BlockTable& table, std::int32_t num_tokens, std::int32_t chunk,
                          std::int64_t num_free);
  // Ends the promise: the table has reached it, or is removed. The table's address must not change until
  // then.
  void end(const BlockTable& table) { promised_.erase(&table); }
  void computed(const BlockTable& table);  // ends the promise if it is reached

  std::int64_t set_aside() const;  // total over all tables
  // True if the table can grow using free pages that are not set aside for others, and still leave enough for
  // its own promise.
  bool can_grow(const BlockTable& table, std::int32_t num_tokens, std::int64_t num_free) const;
  // The length that it can grow to: a row's end, or `num_tokens`.
  std::int32_t most_tokens(const BlockTable& table, std::int32_t num_tokens, std::int64_t num_free) const;

 private:
  struct Promise {
    std::int32_t num_tokens = 0, chunk = 1;
  };
  Promise of(const BlockTable& table) const;
  // As if the table had space for `num_tokens` tokens.
  std::int64_t set_aside(const BlockTable& table, std::int32_t num_tokens, Promise promise) const;

  const KvGeometry& geometry_;
  const BlockTables& tables_;
  const BlockPool& pool_;
  std::unordered_map<const BlockTable*, Promise> promised_;
};

}  // namespace pagoda
