#include "model_runner/kv_storage.h"

#include <algorithm>
#include <limits>

#include "base/strings.h"

namespace pagoda {

Result<KvStorage> KvStorage::create(const KvLayout& layout, std::int64_t num_blocks,
                                    std::int64_t num_swap_blocks) {
  KvStorage storage;
  storage.block_bytes_ = layout.block_bytes();
  const auto limit =
      std::numeric_limits<std::int64_t>::max() / 4 / static_cast<std::int64_t>(storage.block_bytes_);
  if (num_blocks <= 0 ||
      num_blocks > std::min<std::int64_t>(limit, std::numeric_limits<std::int32_t>::max()) ||
      num_swap_blocks < 0 || num_swap_blocks > num_blocks) {
    return invalid_argument(
        concat("a KV cache of ", num_blocks, " blocks and ", num_swap_blocks, " swap blocks"));
  }
  storage.num_blocks_ = num_blocks;
  storage.num_swap_blocks_ = num_swap_blocks;
  auto pool = Memory::reserve(static_cast<std::size_t>(num_blocks) * storage.block_bytes_);
  if (!pool) return pool.error().annotate("KV cache");
  storage.pool_ = *std::move(pool);
  if (num_swap_blocks > 0) {
    auto swap = Memory::reserve(static_cast<std::size_t>(num_swap_blocks) * storage.block_bytes_);
    if (!swap) return swap.error().annotate("KV swap space");
    storage.swap_ = *std::move(swap);
  }
  return storage;
}

std::byte* KvStorage::block(BlockId id) const {
  CHECK(index(id) >= 0 && index(id) < num_blocks_);
  return pool_.data() + static_cast<std::size_t>(index(id)) * block_bytes_;
}

std::byte* KvStorage::block(SwapBlockId id) const {
  const auto position = static_cast<std::int32_t>(id);
  CHECK(position >= 0 && position < num_swap_blocks_);
  return swap_.data() + static_cast<std::size_t>(position) * block_bytes_;
}

void KvStorage::run(const KernelContext& context) {
  if (!pairs_.empty()) copy_blocks(context, block_bytes_, pairs_);
  pairs_.clear();
}

void KvStorage::swap_out(const KernelContext& context, std::span<const SwapCopy> copies) {
  for (const SwapCopy& copy : copies) pairs_.push_back({block(copy.block), block(copy.swap_block)});
  run(context);
}

void KvStorage::swap_in(const KernelContext& context, std::span<const SwapCopy> copies) {
  for (const SwapCopy& copy : copies) pairs_.push_back({block(copy.swap_block), block(copy.block)});
  run(context);
}

void KvStorage::copy(const KernelContext& context, std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    const BlockPair pair = {block(copy.from), block(copy.to)};
    // copy_blocks does its pairs in any order: one that touches an earlier destination has to wait for it.
    const bool chained = std::any_of(pairs_.begin(), pairs_.end(), [&](const BlockPair& earlier) {
      return earlier.to == pair.from || earlier.from == pair.to || earlier.to == pair.to;
    });
    if (chained) run(context);
    pairs_.push_back(pair);
  }
  run(context);
}

}  // namespace pagoda
