#pragma once
// SequenceSlots: the slot of the reserved address space (slot_map.h) that each sequence has, and the tables
// of virtual blocks in it. A slot has a range for each KV group that grows with the tokens. A state does not
// grow: its table names pages of the pool. A sequence gets its slot when it first grows; one that only holds
// a pinned prefix has none. The owner of a page is recorded in the sequence's BlockTable, which is passed to
// every call. Invariant: the slot of a sequence shows exactly its pages, in order. Source: vAttention (arXiv
// 2405.04437). Threads: none; owned by the engine thread.
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
  // Borrows all arguments but the config.
  SequenceSlots(const SlotMapConfig& config, const KvGeometry& geometry, const BlockTables& tables,
                BlockPool& pool);

  // Number of pages to map into the slot once the table has space for `num_tokens` tokens; all of its pages
  // if the sequence has no slot yet.
  std::int64_t pages_to_show(SequenceId id, const BlockTable& table, std::int32_t num_tokens) const;
  [[nodiscard]] bool make_space(std::int64_t pages) { return slots_.make_space(pages); }
  // Gives the sequence a slot to grow to `num_tokens` tokens in, if it has none. Returns false if no slot is
  // idle.
  [[nodiscard]] bool enter(SequenceId id, const BlockTable& table, std::int32_t num_tokens);
  // Allocates the pages of the table's new row `at`, choosing those that are cheapest to map. Returns false
  // if the group has no range.
  [[nodiscard]] bool take_row(SequenceId id, std::size_t group, std::int32_t at, std::vector<BlockId>& pages);
  // Maps the pages of the table, which has grown to `num_tokens` tokens. `has_new_pages`: pages_to_show() was
  // not 0.
  void show(SequenceId id, const BlockTable& table, std::int32_t num_tokens, bool has_new_pages);
  void computed(SequenceId id, const BlockTable& table);  // its windows may have advanced
  void shrink(SequenceId id, const BlockTable& table);    // to fewer rows
  void leave(SequenceId id);                              // no-op without a slot

  bool has(SequenceId id) const { return places_.contains(id); }
  std::size_t num_ranges() const { return static_cast<std::size_t>(slots_.num_ranges()); }
  KvTables tables(SequenceId id, const BlockTable& table) const;  // empty until it has a slot
  SlotMap& map() { return slots_; }
  const SlotMap& map() const { return slots_; }
  void check_invariants(const KvSequences& sequences) const;

 private:
  struct Place {
    std::int32_t slot = 0;
    bool fresh = true;                         // nothing is mapped for it yet
    std::vector<std::vector<BlockId>> tables;  // by group: virtual blocks, from row 0 on
    std::vector<KvTable> more;                 // groups 1, 2, …, from the first kept row
  };
  Place& at(SequenceId id);
  std::int32_t per_row(std::size_t group) const { return geometry_.groups()[group].pages_per_row; }
  std::int32_t rows_for(std::int64_t num_tokens) const;
  // The offset of the sequence's kept rows in the group's range.
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
