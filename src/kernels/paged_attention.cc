#include "kernels/paged_attention.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/device/ops.h"
#include "kernels/kv_layout.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {

std::size_t KvLayout::layer_bytes() const { return static_cast<std::size_t>(KvAddress(*this).layer_bytes); }
std::size_t KvLayout::block_bytes() const { return layer_bytes() * static_cast<std::size_t>(num_layers); }

void paged_attention(const KernelContext& context, const PagedAttentionArgs& args) {
  CHECK(args.layout.dtype != DType::i8 ||
        (args.layout.head_size <= kMaxInt8HeadSize && args.layout.latent_size == 0));
  if (on_device(context)) return device_ops::paged_attention(*context.device, args);
  if (context.backend == Backend::cpu) {
    cpu::paged_attention(context, args);
    return;
  }
  const std::int64_t kv_heads = args.layout.num_kv_heads;
  const auto sequences = static_cast<std::int64_t>(args.sequences.size());
  for_tiles(context, sequences * kv_heads, [&](std::int64_t tile, int) {
    const AttentionSequence& sequence = args.sequences[static_cast<std::size_t>(tile / kv_heads)];
    const auto kv_head = static_cast<std::int32_t>(tile % kv_heads);
    const std::int32_t group = args.num_query_heads / args.layout.num_kv_heads;
    if (args.key) reference::write_kv(args, sequence, kv_head);
    for (std::int32_t row = 0; row < sequence.num_queries; ++row) {
      for (std::int32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        reference::attend(args, sequence, row, head);
      }
    }
  });
}

std::int64_t rows_at_once(const PagedAttentionArgs& args) {
  if (args.rows_at_once > 0) return args.rows_at_once;
  std::int64_t rows = 1;
  for (const AttentionSequence& sequence : args.sequences)
    rows = std::max<std::int64_t>(rows, sequence.query_start + sequence.num_queries);
  return rows;
}

namespace {

// Lists the blocks that one sequence reads, except leading blocks that it shares with the previous sequence:
// those are already listed.
void list_blocks(const PagedAttentionArgs& args, const KvAddress& address, const AttentionSequence& sequence,
                 const AttentionSequence* previous, std::size_t end, ReadAhead& out) {
  const std::int32_t size = args.layout.block_size;
  const std::int32_t before = sequence.context_len - sequence.num_queries;
  std::int32_t block = first_seen(args, before) / size;
  if (previous != nullptr && args.sliding_window == 0) {
    const std::int32_t both = std::min(before, previous->context_len - previous->num_queries);
    while (block * size < both && sequence.block_table[block] == previous->block_table[block]) ++block;
  }
  for (; block * size < before && out.pieces.size() < end; ++block) {
    out.pieces.push_back(args.cache + sequence.block_table[block] * address.block_stride +
                         address.key_piece(args.layer, 0));
  }
}

}  // namespace

void list_context(const KernelContext& context, const PagedAttentionArgs& args, ReadAhead& out) {
  // The size of a last-level cache, whether or not threads share it; more would evict the first bytes.
  constexpr std::int64_t kMost = std::int64_t{8} << 20;
  const std::int64_t threads = num_threads(context), at_once = rows_at_once(args);
  out.pieces.clear();
  out.ends.clear();
  const KvAddress address(args.layout);
  out.piece_bytes = address.layer_bytes / 64 * 64;
  if (out.piece_bytes == 0) return;  // smaller than a cache line
  const auto most = static_cast<std::size_t>(kMost / threads / out.piece_bytes);
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    const AttentionSequence* previous = nullptr;
    const auto begin = static_cast<std::ptrdiff_t>(out.pieces.size());
    const std::size_t end = out.pieces.size() + most;
    for (const AttentionSequence& sequence : args.sequences) {
      if (thread_of_row(sequence.query_start, at_once, threads) != thread) continue;
      list_blocks(args, address, sequence, previous, end, out);
      previous = &sequence;
    }
    // Pieces that are attended to first come last, so that they are still in the core's nearest cache.
    std::reverse(out.pieces.begin() + begin, out.pieces.end());
    out.ends.push_back(out.pieces.size());
  }
}

void copy_blocks(const KernelContext& context, std::size_t block_bytes, std::span<const BlockPair> pairs) {
  for_tiles(context, static_cast<std::int64_t>(pairs.size()), [&](std::int64_t tile, int) {
    const BlockPair& pair = pairs[static_cast<std::size_t>(tile)];
    std::memcpy(pair.to, pair.from, block_bytes);
  });
}

}  // namespace pagoda
