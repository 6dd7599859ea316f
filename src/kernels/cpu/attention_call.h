#pragma once
// What the parts of paged_attention share: one call's facts, its units of work, and where K and V lie.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_tile.h"
#include "kernels/kv_layout.h"

namespace pagoda::cpu {

// A run of query rows of one sequence.
struct AttentionUnit {
  std::int32_t sequence, first_row, num_rows;
  std::int64_t cost;
};

// What one paged_attention call knows from the start.
struct AttentionCall {
  const PagedAttentionArgs& args;
  const AttentionKernels& kernels;
  const AttentionKernelsOfType& of_type;
  KvAddress address;
  KvAddress group_address;  // of one group of padded width: what the kernels read
  std::int32_t group;       // query heads per KV head
  std::int32_t width;       // head size padded to 16
  bool direct;              // the cache already holds whole groups of padded width

  std::byte* block(const AttentionSequence& sequence, std::int32_t position) const {
    return args.cache + sequence.block_table[position / args.layout.block_size] * address.block_stride;
  }
};

// Where one thread reads on when it is through with a (sequence, KV head): its next one, or none.
struct NextPiece {
  const AttentionSequence* sequence = nullptr;
  std::int32_t kv_head = 0;
};

// Into the cache: all rows of a sequence, one KV head.
void write_kv(const AttentionCall& call, const AttentionSequence& sequence, std::int32_t kv_head);

// The K and V that a tile attends to in one partition; valid until the thread's next call.
PartitionKv find_partition(const AttentionCall& call, const AttentionSequence& sequence,
                           const AttentionTile& tile, std::int32_t kv_head, std::int32_t partition,
                           const NextPiece& next);

inline AttentionTile make_tile(const AttentionCall& call, const AttentionUnit& unit, std::int32_t kv_head) {
  const PagedAttentionArgs& args = call.args;
  const AttentionSequence& sequence = args.sequences[static_cast<std::size_t>(unit.sequence)];
  const std::int64_t row = sequence.query_start + unit.first_row;
  const std::int64_t head = static_cast<std::int64_t>(kv_head) * call.group * args.layout.head_size;
  const std::int64_t output_stride = static_cast<std::int64_t>(args.num_query_heads) * args.layout.head_size;
  return {.query = args.query + row * args.row_stride + head,
          .query_stride = args.row_stride,
          .output = args.output + row * output_stride + head,
          .output_stride = output_stride,
          .num_rows = unit.num_rows,
          .group = call.group,
          .head_size = args.layout.head_size,
          .width = call.width,
          .first_position = sequence.context_len - sequence.num_queries + unit.first_row,
          .window = args.sliding_window,
          .scale = args.scale};
}

inline std::int32_t first_partition(const AttentionTile& tile) {
  return tile.window > 0 ? std::max(0, tile.first_position - tile.window + 1) / kPartition : 0;
}
inline std::int32_t last_partition(const AttentionTile& tile) {
  return (tile.first_position + tile.num_rows - 1) / kPartition;
}

constexpr std::size_t state_floats(std::size_t row_heads, std::size_t width) {
  return row_heads * (width + 2);
}
inline AttentionState state_at(float* memory, std::size_t row_heads) {
  return {.max = memory, .sum = memory + row_heads, .values = memory + 2 * row_heads};
}

}  // namespace pagoda::cpu
