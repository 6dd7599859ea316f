#pragma once
// SwapSpace: where the rows of swapped sequences are, and what is to be copied to get them there and back
// (§4.5). Its blocks are numbered on their own; the bytes are in model_runner/kv_storage.h. A row that
// several sequences hold is moved once, and they share it again.
// It changes no table: the manager releases the rows that are left, and puts the new ones in their place.
// Threads: none; owned by the engine thread.
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
  // The rows moved so far, by their names before, to their names now; one for each call of the manager.
  using Moved = std::unordered_map<std::int32_t, BlockId>;

  SwapSpace(const KvGeometry& geometry, const BlockTables& tables, std::int32_t num_blocks)
      : geometry_(geometry), tables_(tables), pool_(num_blocks) {}

  std::int64_t num_blocks() const { return pool_.num_blocks(); }
  std::int64_t num_free() const { return pool_.num_free(); }

  // The cost of moving these sequences: pages of their computed rows, each counted once, and tokens.
  static SwapCost cost(const KvGeometry& geometry, const BlockTables& tables,
                       std::span<const BlockTable* const> sequences);
  // Takes room for the computed rows of a table in the pool; cost() says that there is enough.
  std::vector<GroupRows> store(const BlockTable& table, Moved& moved, std::vector<SwapCopy>& copies);
  // Takes rows of `pool` for a swapped table.
  std::vector<GroupRows> load(const BlockTable& table, BlockPool& pool, Moved& moved,
                              std::vector<SwapCopy>& copies) const;
  void release(const BlockTable& table);  // that is swapped

  void check_invariants(std::span<const BlockTable* const> swapped) const;

 private:
  const KvGeometry& geometry_;
  const BlockTables& tables_;
  BlockPool pool_;
};

}  // namespace pagoda
