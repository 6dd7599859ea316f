#pragma once
// VirtualKvManager: vAttention's memory manager. A sequence's K/V is contiguous in reserved address space,
// its slot, and physical pages stand behind as much of it as is needed (slot_map.h). Which sequence owns
// which page is decided as in PagedKvManager, so that the answers are the same, to the bit. Block tables are
// runs of virtual blocks; copies, blocks_of() and ref_count() name pages. A slot has a range for each KV
// group that grows with the tokens. A state does not grow: its table names pages of the pool. A sequence gets
// its slot when it first grows; one that only holds a pinned prefix has none. Invariant: the slot of a
// sequence that has one shows exactly its pages, in order. Source: vAttention (arXiv 2405.04437). Threads:
// owned by the engine thread; check_alone() is safe from any.
#include <functional>
#include <unordered_map>
#include <vector>

#include "kv_cache/paged_kv_manager.h"
#include "kv_cache/slot_map.h"

namespace pagoda {

struct VirtualKvConfig {
  PagedKvConfig pages;  // a block is a page, or as many as hold a group of tokens
  SlotMapConfig slots;  // num_slots: at least as many as sequences that run together
  // With pages.num_created > 0, only so many exist; more are asked for, in batches, before they are first
  // used, and may be refused.
  std::function<bool(std::int64_t)> may_create = {};
  // FREE pages that keep the memory they had; those beyond it give it back. 0: all keep it.
  std::int32_t most_resident_free = 0;
};

class VirtualKvManager final : public PagedKvManager {
 public:
  explicit VirtualKvManager(const VirtualKvConfig& config);

  std::string_view name() const override { return "virtual"; }
  std::optional<BlockId> first_virtual_block(SequenceId id) const override;
  std::int64_t num_blocks() const override { return config().num_blocks; }
  std::int64_t num_free_blocks() const override { return pool().num_free() + num_uncreated(); }
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) override;
  std::int32_t most_tokens(SequenceId id, std::int32_t num_tokens) override;
  void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) override;
  void shrink(SequenceId id, std::int32_t num_tokens) override;
  void free(SequenceId id) override;
  [[nodiscard]] bool swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  [[nodiscard]] bool swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  [[nodiscard]] bool make_ready(std::int64_t num_blocks, std::span<const std::int32_t> num_tokens) override;
  KvTables tables(SequenceId id) const override;  // empty before the first grow()
  // The pages behind the table, of the first group.
  std::span<const BlockId> blocks_of(SequenceId id) const { return PagedKvManager::tables(id).blocks; }
  void take_page_mappings(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead) override;
  Status check_alone(std::int64_t num_sequences, std::int64_t num_tokens,
                     std::int64_t num_needed) const override;
  void check_invariants() const override;

  const SlotMap& slots() const { return slots_; }

 private:
  struct Place {
    std::int32_t slot = 0;
    std::vector<std::vector<BlockId>> tables;  // by group: virtual blocks, from row 0 on
    std::vector<KvTable> more;                 // groups 1, 2, …, from the first row that is kept
  };
  void new_row(SequenceId id, std::size_t group, std::int32_t at, std::vector<BlockId>& pages) override;
  std::int32_t per_row(std::size_t group) const { return groups()[group].pages_per_row; }
  // The start of the sequence's rows in the group's range.
  std::int32_t first_block(SequenceId id, std::size_t group) const {
    return pages_of(id, group).first_row * per_row(group);
  }
  // Pages that grow() has to show in the sequence's slot; all of them if it has none yet.
  std::int64_t pages_to_show(SequenceId id, std::int32_t num_tokens) const;
  // Groups that have a range in each slot: the first ones.
  std::size_t num_ranges() const { return static_cast<std::size_t>(slots_.num_ranges()); }
  void show_growth(SequenceId id, Place& place, std::int32_t rows);
  std::int64_t num_uncreated() const { return config().num_blocks - pool().num_blocks(); }
  // Creates pages if that is allowed.
  bool make_available(std::int64_t num_pages) override;
  void leave_slot(SequenceId id);

  SlotMap slots_;
  std::unordered_map<SequenceId, Place> places_;
  std::int32_t growing_in_ = 0;  // the slot of the sequence that grow() is about
  const std::function<bool(std::int64_t)> may_create_;
  const std::int32_t most_resident_free_;
  std::vector<BlockId> forgotten_;  // pages to give back with the next batch, if they are still FREE
  std::int32_t num_refusals_ = 0;   // asks that are left out after a refusal
};

}  // namespace pagoda
