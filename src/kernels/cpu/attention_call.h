#pragma once
// Shared by the parts of paged_attention: one call's facts, and the place of K and V.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_tile.h"
#include "kernels/kv_layout.h"

namespace pagoda::cpu {

// Facts of one paged_attention call that hold from its start.
struct AttentionCall {
  const PagedAttentionArgs& args;
  const AttentionKernels& kernels;
  const AttentionKernelsOfType& of_type;
  KvAddress address;
  // One group of padded width, as the kernels read it: K, and V.
  KvAddress group_address, value_address;
  std::int32_t group;               // query heads per KV head
  std::int32_t width, value_width;  // head sizes padded to 16
  float key_scale, value_scale;     // factors of the numbers that the kernels multiply
  bool direct;                      // the cache already holds whole groups of padded width

  std::byte* block(const AttentionSequence& sequence, std::int32_t position) const {
    return args.cache + sequence.block_table[position / args.layout.block_size] * address.block_stride;
  }
};

// The next (sequence, KV head) of a thread that is through with one, or none.
struct NextPiece {
  const AttentionSequence* sequence = nullptr;
  std::int32_t kv_head = 0;
};

// Into the cache: all rows of a sequence, one KV head.
void write_kv(const AttentionCall& call, const AttentionSequence& sequence, std::int32_t kv_head);

// The K and V that a tile attends to in one partition; valid until the thread's next call. Nothing else comes
// into the cache meanwhile, unless one of the functions below says what.
PartitionKv find_partition(const AttentionCall& call, const AttentionSequence& sequence,
                           const AttentionTile& tile, std::int32_t kv_head, std::int32_t partition);
// Prefetches a partition ahead in this tile, and behind its last one the next piece.
void read_on(const AttentionCall& call, const AttentionSequence& sequence, const AttentionTile& tile,
             std::int32_t kv_head, std::int32_t partition, const NextPiece& next, PartitionKv& kv);
// One partition of any tile.
void read_partition(const AttentionCall& call, const AttentionSequence& sequence, const AttentionTile& tile,
                    std::int32_t kv_head, std::int32_t partition, PartitionKv& kv);

}  // namespace pagoda::cpu
