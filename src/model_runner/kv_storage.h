#pragma once
// KvStorage: the bytes of the KV cache and of its swap space. Both are reserved at once and become resident
// only as blocks are written. Not who owns which block: that is kv_cache/.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/paged_attention.h"
#include "request/block_copy.h"
#include "tensor/memory.h"

namespace pagoda {

class KvStorage {
 public:
  KvStorage() = default;
  static Result<KvStorage> create(const KvLayout& layout, std::int64_t num_blocks,
                                  std::int64_t num_swap_blocks);

  // The three lists of a ScheduledBatch, carried out in the order of these functions. Pairs of one list may
  // chain.
  void swap_out(const KernelContext& context, std::span<const SwapCopy> copies);
  void swap_in(const KernelContext& context, std::span<const SwapCopy> copies);
  void copy(const KernelContext& context, std::span<const BlockCopy> copies);

  std::byte* data() const { return pool_.data(); }
  std::int64_t num_blocks() const { return num_blocks_; }
  std::int64_t num_swap_blocks() const { return num_swap_blocks_; }
  std::int64_t pool_bytes() const { return static_cast<std::int64_t>(pool_.size()); }
  std::int64_t swap_bytes() const { return static_cast<std::int64_t>(swap_.size()); }

 private:
  std::byte* block(BlockId id) const;
  std::byte* block(SwapBlockId id) const;
  void run(const KernelContext& context);

  std::size_t block_bytes_ = 0;
  std::int64_t num_blocks_ = 0, num_swap_blocks_ = 0;
  Memory pool_, swap_;
  std::vector<BlockPair> pairs_;
};

}  // namespace pagoda
