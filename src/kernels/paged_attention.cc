#include "kernels/paged_attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu.h"
#include "kernels/kv_layout.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {

std::size_t KvLayout::layer_bytes() const { return static_cast<std::size_t>(KvAddress(*this).layer_bytes); }
std::size_t KvLayout::block_bytes() const { return layer_bytes() * static_cast<std::size_t>(num_layers); }

void paged_attention(const KernelContext& context, const PagedAttentionArgs& args) {
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
    reference::write_kv(args, sequence, kv_head);
    for (std::int32_t row = 0; row < sequence.num_queries; ++row) {
      for (std::int32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        reference::attend(args, sequence, row, head);
      }
    }
  });
}

void list_context(const KvLayout& layout, const std::byte* cache, std::int32_t layer,
                  std::span<const AttentionSequence> sequences, std::int32_t sliding_window, ReadAhead& out) {
  // Of a cache of last resort that threads share; what is beyond would push out what came first.
  constexpr std::int64_t kMost = std::int64_t{8} << 20;
  const KvAddress address(layout);
  out.pieces.clear();
  out.piece_bytes = address.layer_bytes / 64 * 64;
  const auto most = static_cast<std::size_t>(kMost / std::max<std::int64_t>(out.piece_bytes, 64));
  if (out.piece_bytes == 0) return;  // smaller than a line
  const AttentionSequence* previous = nullptr;
  for (const AttentionSequence& sequence : sequences) {
    const std::int32_t before = sequence.context_len - sequence.num_queries;
    const std::int32_t first = sliding_window > 0 ? std::max(0, before + 1 - sliding_window) : 0;
    std::int32_t block = first / layout.block_size;
    if (previous != nullptr && sliding_window == 0) {  // what both begin with is there already
      const std::int32_t both = std::min(before, previous->context_len - previous->num_queries);
      while (block * layout.block_size < both && sequence.block_table[block] == previous->block_table[block])
        ++block;
    }
    previous = &sequence;
    for (; block * layout.block_size < before; ++block) {
      if (out.pieces.size() == most) return;
      out.pieces.push_back(cache + sequence.block_table[block] * address.block_stride +
                           address.key_piece(layer, 0));
    }
  }
}

void copy_blocks(const KernelContext& context, std::size_t block_bytes, std::span<const BlockPair> pairs) {
  for_tiles(context, static_cast<std::int64_t>(pairs.size()), [&](std::int64_t tile, int) {
    const BlockPair& pair = pairs[static_cast<std::size_t>(tile)];
    std::memcpy(pair.to, pair.from, block_bytes);
  });
}

}  // namespace pagoda
