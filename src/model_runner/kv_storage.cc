#include "model_runner/kv_storage.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// Enough for a first burst of 64 requests of 256 tokens.
constexpr std::size_t kTokensAhead = 16384, kMaxForThem = std::size_t{512} << 20;
constexpr std::size_t kMaxAhead = std::size_t{1} << 30;
constexpr std::size_t kPopulatedAtOnce = std::size_t{2} << 20;  // a huge page: up to 5 ms

}  // namespace

Result<KvStorage> KvStorage::begin(const KvLayout& layout, std::int64_t num_blocks,
                                   std::int64_t num_swap_blocks) {
  KvStorage storage;
  storage.piece_bytes_ = layout.block_bytes();
  const auto limit =
      std::numeric_limits<std::int64_t>::max() / 4 / static_cast<std::int64_t>(storage.piece_bytes_);
  if (num_blocks <= 0 ||
      num_blocks > std::min<std::int64_t>(limit, std::numeric_limits<std::int32_t>::max()) ||
      num_swap_blocks < 0 || num_swap_blocks > num_blocks) {
    return invalid_argument(
        concat("a KV cache of ", num_blocks, " blocks and ", num_swap_blocks, " swap blocks"));
  }
  storage.least_ahead_ = std::min(
      kTokensAhead / static_cast<std::size_t>(layout.block_size) * storage.piece_bytes_, kMaxForThem);
  storage.num_blocks_ = num_blocks;
  storage.num_swap_blocks_ = num_swap_blocks;
  if (num_swap_blocks > 0) {
    auto swap = Memory::reserve(static_cast<std::size_t>(num_swap_blocks) * storage.piece_bytes_);
    if (!swap) return swap.error().annotate("KV swap space");
    storage.swap_ = *std::move(swap);
  }
  return storage;
}

Result<KvStorage> KvStorage::create(const KvLayout& layout, std::int64_t num_blocks,
                                    std::int64_t num_swap_blocks) {
  PAGODA_ASSIGN_OR_RETURN(auto storage, begin(layout, num_blocks, num_swap_blocks));
  auto pool = Memory::reserve(static_cast<std::size_t>(num_blocks) * storage.piece_bytes_);
  if (!pool) return pool.error().annotate("KV cache");
  storage.pool_ = *std::move(pool);
  return storage;
}

Result<KvStorage> KvStorage::create_virtual(const KvLayout& layout, const VirtualKvShape& shape,
                                            std::int64_t num_blocks, std::int64_t num_swap_blocks) {
  if (shape.num_slots < 1 || shape.blocks_per_slot < 1 ||
      shape.num_slots > std::numeric_limits<std::int32_t>::max() / shape.blocks_per_slot) {
    return invalid_argument(
        concat("a virtual KV cache of ", shape.num_slots, " slots of ", shape.blocks_per_slot, " blocks"));
  }
  PAGODA_ASSIGN_OR_RETURN(auto storage, begin(layout, num_blocks, num_swap_blocks));
  storage.num_pieces_ = shape.num_tensors;
  storage.piece_bytes_ /= static_cast<std::size_t>(shape.num_tensors);
  CHECK(static_cast<std::int64_t>(storage.piece_bytes_) <= shape.page_bytes);
  auto arena = PageArena::create({.page_bytes = shape.page_bytes,
                                  .num_tensors = shape.num_tensors,
                                  .num_pages = num_blocks,
                                  .num_blocks = shape.num_slots * shape.blocks_per_slot});
  if (!arena) return arena.error().annotate("virtual KV cache");
  const std::int64_t num_created = shape.num_created < 0 ? num_blocks : shape.num_created;
  if (const Status status = arena->create_pages(0, num_created); !status.ok())
    return status.annotate("virtual KV cache");
  storage.mapper_ = std::make_unique<PageMapper>(*std::move(arena));
  return storage;
}

std::byte* KvStorage::block(BlockId id, std::int32_t piece) const {
  CHECK(index(id) >= 0 && index(id) < num_blocks_);
  if (mapper_) return mapper_->arena().page(index(id), piece);
  return pool_.data() + static_cast<std::size_t>(index(id)) * piece_bytes_;
}

std::byte* KvStorage::block(SwapBlockId id, std::int32_t piece) const {
  const auto position = static_cast<std::int32_t>(id);
  CHECK(position >= 0 && position < num_swap_blocks_);
  return swap_.data() + (static_cast<std::size_t>(position) * static_cast<std::size_t>(num_pieces_) +
                         static_cast<std::size_t>(piece)) *
                            piece_bytes_;
}

bool KvStorage::populate_ahead() {
  const std::size_t unit = piece_bytes_ * static_cast<std::size_t>(num_pieces_);  // without page padding
  const auto there = static_cast<std::size_t>(mapper_ ? mapper_->arena().num_created() : num_blocks_) * unit;
  const std::size_t used = static_cast<std::size_t>(num_used_) * unit;
  const std::size_t begin = std::max(num_populated_, used);
  const std::size_t end = std::min(there, used + std::clamp(used, least_ahead_, kMaxAhead));
  if (begin >= end) return false;
  std::size_t bytes = std::min(end - begin, kPopulatedAtOnce);
  bool populated = false;
  if (mapper_) {  // populates whole pages
    const std::size_t first = begin / unit, count = std::max<std::size_t>(1, bytes / unit);
    bytes = (first + count) * unit - begin;
    populated = mapper_->populate(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count));
  } else {
    populated = pool_.populate(begin, bytes);
  }
  num_populated_ = populated ? begin + bytes : there;
  return num_populated_ < end;
}

void KvStorage::discard() {
  swap_.discard();
  if (mapper_) return;
  pool_.discard();
  num_used_ = 0;
  num_populated_ = 0;
}

void KvStorage::read(BlockId id, std::span<std::byte> to) const {
  CHECK(to.size() == block_bytes());
  for (std::int32_t piece = 0; piece < num_pieces_; ++piece)
    std::memcpy(to.data() + static_cast<std::size_t>(piece) * piece_bytes_, block(id, piece), piece_bytes_);
}

void KvStorage::write(BlockId id, std::span<const std::byte> from) const {
  CHECK(from.size() == block_bytes());
  for (std::int32_t piece = 0; piece < num_pieces_; ++piece)
    std::memcpy(block(id, piece), from.data() + static_cast<std::size_t>(piece) * piece_bytes_, piece_bytes_);
}

void KvStorage::run(const KernelContext& context) {
  if (!pairs_.empty()) copy_blocks(context, piece_bytes_, pairs_);
  pairs_.clear();
}

void KvStorage::swap_out(const KernelContext& context, std::span<const SwapCopy> copies) {
  for (const SwapCopy& copy : copies) {
    for (std::int32_t piece = 0; piece < num_pieces_; ++piece)
      pairs_.push_back({block(copy.block, piece), block(copy.swap_block, piece)});
  }
  run(context);
}

void KvStorage::swap_in(const KernelContext& context, std::span<const SwapCopy> copies) {
  for (const SwapCopy& copy : copies) {
    for (std::int32_t piece = 0; piece < num_pieces_; ++piece)
      pairs_.push_back({block(copy.swap_block, piece), block(copy.block, piece)});
  }
  run(context);
}

void KvStorage::copy(const KernelContext& context, std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    const BlockPair first = {block(copy.from, 0), block(copy.to, 0)};
    // copy_blocks does its pairs in any order, so a pair that touches an earlier destination must wait for
    // it.
    const bool chained = std::any_of(pairs_.begin(), pairs_.end(), [&](const BlockPair& earlier) {
      return earlier.to == first.from || earlier.from == first.to || earlier.to == first.to;
    });
    if (chained) run(context);
    for (std::int32_t piece = 0; piece < num_pieces_; ++piece)
      pairs_.push_back({block(copy.from, piece), block(copy.to, piece)});
  }
  run(context);
}

}  // namespace pagoda
