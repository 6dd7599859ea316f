#pragma once
// VirtualKvManager: vAttention's memory manager. Block tables are runs of virtual blocks, to which pages are
// mapped (sequence_slots.h); copies, pages_of() and ref_count() name pages. The same paged memory as in
// PagedKvManager decides which page belongs to whom, so results are bit-identical. Swapping and inspection
// also work as there, except for slots. Source: vAttention (arXiv 2405.04437). Threads: as kv_manager.h says.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kv_cache/kv_manager.h"
#include "kv_cache/paged_memory.h"
#include "kv_cache/sequence_slots.h"

namespace pagoda {

struct VirtualKvConfig {
  PagedKvConfig pages;  // a block is one page, or the pages that hold a group of tokens
  SlotMapConfig slots;  // num_slots: at least the maximum number of sequences that run together
  // Pages that exist initially, and the callback that grants more (page_supply.h); 0: all exist.
  std::int32_t num_created = 0;
  PageSupply::MayCreate may_create = {};
  // Maximum number of FREE pages that keep their memory; pages beyond it give it back. 0: all keep it.
  std::int32_t most_resident_free = 0;
};

class VirtualKvManager final : private KvSwap, private KvInspection, public KvManager {
 public:
  explicit VirtualKvManager(const VirtualKvConfig& config);

  std::int64_t num_blocks() const override { return parts().supply.num_pages(); }
  std::int64_t num_free_blocks() const override { return parts().supply.num_free(); }
  std::int64_t num_available_blocks() const override { return parts().num_available(); }
  Status check_alone(std::int64_t num_sequences, std::int64_t num_tokens,
                     std::int64_t num_needed) const override;
  std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                            bool allow_cache) override {
    return memory_->steps.add_sequence(id, tokens, use, allow_cache);
  }
  [[nodiscard]] bool promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) override {
    return memory_->steps.promise(id, num_tokens, chunk);
  }
  std::int64_t pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const override {
    return memory_->steps.pages_to_promise(id, num_tokens, chunk);
  }
  std::int32_t most_tokens(SequenceId id, std::int32_t num_tokens) override;
  std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const override {
    return memory_->steps.blocks_to_grow(id, num_tokens);
  }
  [[nodiscard]] bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) override;
  [[nodiscard]] bool make_ready(std::int64_t num_blocks, std::span<const std::int32_t> num_tokens) override;
  void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) override;
  void shrink(SequenceId id, std::int32_t num_tokens) override;
  void free(SequenceId id) override;
  KvTables tables(SequenceId id) const override { return slots_.tables(id, table(id)); }
  void copy_states(SequenceId id, std::int32_t index, std::int32_t num_tokens,
                   std::vector<StateCopy>& copies) override {
    memory_->steps.copy_states(id, index, num_tokens, copies);
  }
  void take_page_mappings(std::vector<PageMapping>& now, std::vector<PageMapping>& ahead) override;

  const SlotMap& slots() const { return slots_.map(); }

 private:
  VirtualKvManager(std::unique_ptr<PagedMemory> memory, const VirtualKvConfig& config);

  // KvSwap
  [[nodiscard]] bool swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  [[nodiscard]] bool swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override {
    return memory_->swap.swap_in(ids, copies);
  }
  SwapCost swap_cost(std::span<const SequenceId> ids) const override { return memory_->swap.swap_cost(ids); }
  std::int64_t num_swap_blocks() const override { return memory_->swap.num_swap_blocks(); }
  std::int64_t num_free_swap_blocks() const override { return memory_->swap.num_free_swap_blocks(); }

  // KvInspection
  std::string_view name() const override { return "virtual"; }
  KvUsage usage() const override { return memory_->inspection.usage(); }
  PrefixCacheStats prefix_cache_stats() const override { return parts().stats; }
  KvTable pages_of(SequenceId id, std::size_t group) const override {
    return memory_->inspection.pages_of(id, group);
  }
  std::int32_t ref_count(BlockId block) const override { return parts().pool.ref_count(block); }
  void append_cached(std::vector<BlockId>& out) const override { parts().pool.append_cached(out); }
  std::optional<BlockId> first_virtual_block(SequenceId id) const override;
  void check_invariants() const override;

  const PagedParts& parts() const { return memory_->parts; }
  const BlockTable& table(SequenceId id) const { return parts().sequences.at(id).table; }

  const std::unique_ptr<PagedMemory> memory_;  // made before the base class, which refers to it
  SequenceSlots slots_;
  const std::int32_t num_created_, most_resident_free_;
  std::vector<BlockId> forgotten_;  // pages to give back with the next batch, if still FREE
};

}  // namespace pagoda
