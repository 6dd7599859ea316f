#pragma once
// KvStorage: the bytes of the KV cache and of its swap space. kv_cache/ decides who owns which block. A plain
// cache is one allocation, reserved at once and resident as blocks are written. A virtual cache is reserved
// address space, parts of which are backed by physical pages as batches' mappings say (page_mapper.h). Its
// copies and swaps work on pages, whose bytes are the same wherever they are mapped.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/paged_attention.h"
#include "model_runner/page_mapper.h"
#include "request/block_copy.h"
#include "tensor/memory.h"

namespace pagoda {

// The memory layout of a virtual cache; see virtual_kv_plan.h.
struct VirtualKvShape {
  std::int64_t num_slots = 0, blocks_per_slot = 0;
  std::int64_t page_bytes = 0;    // one block in one tensor: the mapped bytes, with padding
  std::int32_t num_tensors = 1;   // 1: one tensor for all layers of a slot; otherwise one per layer
  std::int64_t num_created = -1;  // pages that may be used from the start; -1: all
};

class KvStorage {
 public:
  KvStorage() = default;
  static Result<KvStorage> create(const KvLayout& layout, std::int64_t num_blocks,
                                  std::int64_t num_swap_blocks);
  // Creates num_blocks pages.
  static Result<KvStorage> create_virtual(const KvLayout& layout, const VirtualKvShape& shape,
                                          std::int64_t num_blocks, std::int64_t num_swap_blocks);

  // Returns null for a plain cache.
  PageMapper* mapper() const { return mapper_.get(); }

  // Carry out the three lists of a ScheduledBatch; call in this order. Pairs of one list may chain.
  void swap_out(const KernelContext& context, std::span<const SwapCopy> copies);
  void swap_in(const KernelContext& context, std::span<const SwapCopy> copies);
  void copy(const KernelContext& context, std::span<const BlockCopy> copies);

  // The size of a whole block, and copies from and to blocks for tiers. Other threads may call these as long
  // as nothing else writes the block.
  std::size_t block_bytes() const { return piece_bytes_ * static_cast<std::size_t>(num_pieces_); }
  void read(BlockId id, std::span<std::byte> to) const;
  void write(BlockId id, std::span<const std::byte> from) const;

  // Keeps memory resident ahead of use, since fresh pages come slowly: on a virtual machine at a tenth of the
  // speed at which they are written. The target is as much again as the blocks (or pages) used so far, but at
  // least 16,384 tokens (or 512 MiB of them) and at most 1 GiB. A batch calls note_used(); when idle,
  // populate_ahead() does a few milliseconds of work, and returns false when nothing is left.
  void note_used(BlockId block) { num_used_ = std::max(num_used_, std::int64_t{index(block)} + 1); }
  bool populate_ahead();

  // Discards the content of all blocks and frees the memory behind them. Pages of a virtual cache stay: the
  // manager knows which pages are mapped.
  void discard();

  // The address of a whole page, independent of slots. Not for a cache in several tensors.
  std::byte* page(BlockId id) const {
    CHECK(num_pieces_ == 1);
    return block(id, 0);
  }
  // The address of block 0 of a block table, and the number of valid table ids.
  std::byte* data() const { return mapper_ ? mapper_->arena().data() : pool_.data(); }
  std::int64_t num_table_ids() const { return mapper_ ? mapper_->arena().shape().num_blocks : num_blocks_; }
  std::int64_t num_blocks() const { return num_blocks_; }
  std::int64_t num_swap_blocks() const { return num_swap_blocks_; }
  std::int64_t pool_bytes() const {
    return mapper_ ? mapper_->arena().bytes() : static_cast<std::int64_t>(pool_.size());
  }
  std::int64_t swap_bytes() const { return static_cast<std::int64_t>(swap_.size()); }

 private:
  static Result<KvStorage> begin(const KvLayout& layout, std::int64_t num_blocks,
                                 std::int64_t num_swap_blocks);
  // Piece `piece` of a block: the whole block, or one layer.
  std::byte* block(BlockId id, std::int32_t piece) const;
  std::byte* block(SwapBlockId id, std::int32_t piece) const;
  void run(const KernelContext& context);

  std::size_t piece_bytes_ = 0;
  std::int32_t num_pieces_ = 1;  // per block
  std::int64_t num_blocks_ = 0, num_swap_blocks_ = 0;
  // Blocks or pages are handed out in order of their ids: ids from here on are untouched.
  std::int64_t num_used_ = 0;
  std::size_t least_ahead_ = 0, num_populated_ = 0;  // bytes, from the first block on
  Memory pool_, swap_;
  std::unique_ptr<PageMapper> mapper_;
  std::vector<BlockPair> pairs_;
};

}  // namespace pagoda
