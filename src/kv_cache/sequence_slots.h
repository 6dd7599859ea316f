#pragma once
// SequenceSlots: which slot of the reserved address space (slot_map.h) a sequence has, and the tables of
// virtual blocks that name it. A slot has a range for each KV group that grows with the tokens. A state does
// not grow: its table names pages of the pool. A sequence gets its slot when it first grows; one that only
// holds a pinned prefix has none. Who owns a page is in the sequence's BlockTable, which every call is given.
// Invariant: the slot of a sequence that has one shows exactly its pages, in order.
// Source: vAttention (arXiv 2405.04437). Threads: none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv_cache/kv_manager.h"
#include "kv_cache/kv_sequences.h"
#include "kv_cache/slot_map.h"

namespace pagoda {

class SequenceSlots {
 public:
  // Borrows all but the config.
  SequenceSlots(const SlotMapConfig& config, const KvGeometry& geometry, const BlockTables& tables,
                BlockPool& pool);

  // Pages that a slot has to show anew once the table has room for `num_tokens` tokens; all of them if the
  // sequence has no slot yet.
  std::int64_t pages_to_show(SequenceId id, const BlockTable& table, std::int32_t num_tokens) const;
  [[nodiscard]] bool make_space(std::int64_t pages) { return slots_.make_space(pages); }
  // Gives it a slot to grow to so many tokens in, if it has none; false: none is idle.
  [[nodiscard]] bool enter(SequenceId id, const BlockTable& table, std::int32_t num_tokens);
  // The pages of the table's new row `at`, those whose mapping costs least. False: the group has no range.
  [[nodiscard]] bool take_row(SequenceId id, std::size_t group, std::int32_t at, std::vector<BlockId>& pages);
  // The table has grown for `num_tokens` tokens: shows its pages. `has_new_pages`: pages_to_show() was not 0.
  void show(SequenceId id, const BlockTable& table, std::int32_t num_tokens, bool has_new_pages);
  void computed(SequenceId id, const BlockTable& table);  // its windows may have moved
  void shrink(SequenceId id, const BlockTable& table);    // to fewer rows
  void leave(SequenceId id);                              // no effect on one without a slot

  bool has(SequenceId id) const { return places_.contains(id); }
  std::size_t num_ranges() const { return static_cast<std::size_t>(slots_.num_ranges()); }
  KvTables tables(SequenceId id, const BlockTable& table) const;  // empty before it has a slot
  SlotMap& map() { return slots_; }
  const SlotMap& map() const { return slots_; }
  void check_invariants(const KvSequences& sequences) const;

 private:
  struct Place {
    std::int32_t slot = 0;
    bool fresh = true;                         // nothing of it is shown yet
    std::vector<std::vector<BlockId>> tables;  // by group: virtual blocks, from row 0 on
    std::vector<KvTable> more;                 // groups 1, 2, …, from the first row that is kept
  };
  Place& at(SequenceId id);
  std::int32_t per_row(std::size_t group) const { return geometry_.groups()[group].pages_per_row; }
  std::int32_t rows_for(std::int64_t num_tokens) const;
  // The start of the sequence's rows in the group's range.
  std::int32_t first_block(const BlockTable& table, std::size_t group) const {
    return tables_.pages_of(table, group).first_row * per_row(group);
  }
  void show_growth(Place& place, const BlockTable& table, std::int32_t rows);

  const KvGeometry& geometry_;
  const BlockTables& tables_;
  BlockPool& pool_;
  SlotMap slots_;
  std::unordered_map<SequenceId, Place> places_;
};

}  // namespace pagoda
