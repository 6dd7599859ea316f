#pragma once
// SwapSpace: the location of the rows of swapped sequences, and the copies needed to move them there and back
// (§4.5). Its blocks have their own numbering; the bytes are in model_runner/kv_storage.h. A row held by
// several sequences moves once, and they share it again. It changes no table: the manager releases the old
// rows and replaces them. Threads: none; owned by the engine thread.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache/block_tables.h"
#include "kv_cache/kv_swap.h"
#include "request/block_copy.h"

namespace pagoda {

class SwapSpace {
 public:
  // Rows moved so far, from their old to their new names; one map for each call of the manager.
  using Moved = std::unordered_map<std::int32_t, BlockId>;

  SwapSpace(const KvGeometry& geometry, const BlockTables& tables, std::int32_t num_blocks)
      : geometry_(geometry), tables_(tables), pool_(num_blocks) {}

  std::int64_t num_blocks() const { return pool_.num_blocks(); }
  std::int64_t num_free() const { return pool_.num_free(); }

  // The cost of moving these sequences: the pages of their computed rows, each counted once, and the tokens.
  static SwapCost cost(const KvGeometry& geometry, const BlockTables& tables,
                       std::span<const BlockTable* const> sequences);
  // Allocates swap space for the computed rows of a table in the pool; cost() must have shown that there is
  // enough.
  std::vector<GroupRows> store(const BlockTable& table, Moved& moved, std::vector<SwapCopy>& copies);
  // Allocates rows of `pool` for a swapped table.
  std::vector<GroupRows> load(const BlockTable& table, BlockPool& pool, Moved& moved,
                              std::vector<SwapCopy>& copies) const;
  void release(const BlockTable& table);  // the table must be swapped

  void check_invariants(std::span<const BlockTable* const> swapped) const;

 private:
  const KvGeometry& geometry_;
  const BlockTables& tables_;
  BlockPool pool_;
};

}  // namespace pagoda
