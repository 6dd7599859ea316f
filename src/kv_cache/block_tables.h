#pragma once
// BlockTables: the rows of the pool held by sequences, one table for each KV group (request/kv_groups.h). A
// table grows only at its end, by a row when the previous one is full. A row held by several sequences is
// copied by the first one that writes into it. BlockTables does not know which sequences exist: it works on
// the BlockTable passed in, and keeps the account of token slots over all tables. Invariant: a row's
// ref_count is the number of tables (and copies of states) that hold it. Source: PagedAttention (SOSP'23)
// §4.2-4.4. Threads: none; owned by the engine thread.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv_cache/block_pool.h"
#include "kv_cache/kv_geometry.h"
#include "kv_cache/slot_account.h"
#include "request/block_copy.h"
#include "request/page_ops.h"

namespace pagoda {

inline std::size_t as_size(std::int32_t value) { return static_cast<std::size_t>(value); }

// Rows [first, end) of one group, with pages_per_row entries of `pages` each. Entries before `first` have
// been given back and are not read.
struct GroupRows {
  std::vector<BlockId> pages;
  std::int32_t first = 0, end = 0;
};

// One sequence's table.
struct BlockTable {
  std::vector<GroupRows> groups;  // rows of the pool; of the swap space while `swapped`
  std::vector<KvTable> more;      // groups 1, 2, … for the kernels; valid once grown
  bool swapped = false;
  std::int32_t num_tokens = 0;    // has space for this many tokens
  std::int32_t num_computed = 0;  // this many tokens have K/V
};

class BlockTables {
 public:
  // Appends the pages of the group's row number `at` to `pages`, which holds the earlier rows. Must succeed.
  using NewRow = std::function<void(std::size_t group, std::int32_t at, std::vector<BlockId>& pages)>;
  // Calls its argument with each table in the pool.
  using EachTable = std::function<void(const std::function<void(const BlockTable&)>& table)>;

  // Borrows both.
  BlockTables(const KvGeometry& geometry, BlockPool& pool) : geometry_(geometry), pool_(pool) {}

  std::int32_t rows_for(std::size_t group, std::int64_t num_tokens) const {
    return static_cast<std::int32_t>(groups()[group].rows_for(num_tokens));
  }
  // A row is named by its first page.
  BlockId row(const BlockTable& table, std::size_t group, std::int32_t at) const {
    return table.groups[group].pages[as_size(at) * as_size(groups()[group].pages_per_row)];
  }
  // The pages of the table, from its first kept row.
  KvTable pages_of(const BlockTable& table, std::size_t group) const;
  // An empty table, to be filled from row `first` on.
  GroupRows rows_from(std::size_t group, std::int32_t first) const;
  // The row that the next token will be written into.
  std::int32_t next_row(const BlockTable& table, std::size_t group) const;
  // True if growing to `num_tokens` copies that row.
  bool must_copy(const BlockTable& table, std::size_t group, std::int32_t num_tokens) const;
  std::int64_t pages_to_grow(const BlockTable& table, std::size_t group, std::int32_t num_tokens) const;
  std::int64_t pages_to_grow(const BlockTable& table, std::int32_t num_tokens) const;

  // Takes the rows needed for `num_tokens` tokens; the pool must have them. Returns true if the content of a
  // row is copied.
  bool grow(BlockTable& table, std::int32_t num_tokens, const NewRow& new_row,
            std::vector<BlockCopy>& copies);
  // Releases the rows beyond `num_tokens` tokens.
  void shrink(BlockTable& table, std::int32_t num_tokens);
  // Releases the rows that no later position sees.
  void give_back(BlockTable& table);
  // The only way to change the lengths of a table that holds rows.
  void set_lengths(BlockTable& table, std::int32_t num_computed, std::int32_t num_tokens);

  // Makes the table's rows of the group share the rows [first, end) of `from`.
  void share_rows(const GroupRows& from, std::size_t group, std::int32_t first, std::int32_t end,
                  BlockTable& table);
  // Adds a reference to every row: `table` is a copy of another table.
  void share_all(const BlockTable& table);
  // Appends a row for which the caller holds a reference.
  void append_row(BlockTable& table, std::size_t group, BlockId row);
  // Accounts for the rows that were put into the table, or are about to be released.
  void hold_all(const BlockTable& table);
  void leave_all(const BlockTable& table);
  void release_all(const BlockTable& table);  // also calls leave_all()

  // The account of all tables, kept up to date; calls `tables` only if a row's fullest holder has left.
  SlotAccount::Total total(const EachTable& tables) const;
  // total(), computed by walking over all tables.
  SlotAccount::Total walk(const EachTable& tables) const;
  void check(const BlockTable& table) const;

 private:
  const std::vector<KvGroup>& groups() const { return geometry_.groups(); }
  // The fill level of row `at` for a table of these lengths.
  RowFill fill_of(std::int32_t num_computed, std::int32_t num_tokens, std::size_t group,
                  std::int32_t at) const;
  RowFill fill_of(const BlockTable& table, std::size_t group, std::int32_t at) const {
    return fill_of(table.num_computed, table.num_tokens, group, at);
  }
  void hold(const BlockTable& table, std::size_t group, std::int32_t at);
  void leave(const BlockTable& table, std::size_t group, std::int32_t at);
  void copy_next_row(BlockTable& table, std::size_t group, const NewRow& new_row,
                     std::vector<BlockCopy>* copies);

  const KvGeometry& geometry_;
  BlockPool& pool_;
  mutable SlotAccount slots_;  // updated by total()
};

// Calls f(group, row number) for each row that the table holds, the last row of a group first.
template <class F>
void each_row(const BlockTable& table, F f) {
  for (std::size_t group = 0; group < table.groups.size(); ++group)
    for (std::int32_t i = table.groups[group].end - 1; i >= table.groups[group].first; --i) f(group, i);
}

}  // namespace pagoda
