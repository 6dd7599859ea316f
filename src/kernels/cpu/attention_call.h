#pragma once
// Shared by the parts of paged_attention: the parameters of one call, and access to K and V.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_tile.h"
#include "kernels/kv_layout.h"

namespace pagoda::cpu {

// Parameters of one paged_attention call, fixed when it starts.
struct AttentionCall {
  const PagedAttentionArgs& args;
  const AttentionKernels& kernels;
  const AttentionKernelsOfType& of_type;
  KvAddress address;
  // The layout of one group of padded width, as the kernels read it: of K and of V.
  KvAddress group_address, value_address;
  std::int32_t group;               // query heads per KV head
  std::int32_t width, value_width;  // head sizes padded to 16
  float key_scale, value_scale;     // factors of the numbers that the kernels read
  bool direct;                      // the cache already holds whole groups of padded width

  std::byte* block(const AttentionSequence& sequence, std::int32_t position) const {
    return args.cache + sequence.block_table[position / args.layout.block_size] * address.block_stride;
  }
};

// The (sequence, KV head) that a thread computes next; null if there is none.
struct NextPiece {
  const AttentionSequence* sequence = nullptr;
  std::int32_t kv_head = 0;
};

// Writes all rows of a sequence, one KV head, into the cache.
void write_kv(const AttentionCall& call, const AttentionSequence& sequence, std::int32_t kv_head);

// Returns the K and V that a tile attends to in one partition; valid until the thread's next call. The kernel
// prefetches nothing else meanwhile unless one of the functions below sets kv.next.
PartitionKv find_partition(const AttentionCall& call, const AttentionSequence& sequence,
                           const AttentionTile& tile, std::int32_t kv_head, std::int32_t partition);
// Sets kv.next to the keys one partition ahead in this tile, and beyond its last partition to those of the
// next piece.
void read_on(const AttentionCall& call, const AttentionSequence& sequence, const AttentionTile& tile,
             std::int32_t kv_head, std::int32_t partition, const NextPiece& next, PartitionKv& kv);
// Sets kv.next to the keys of one partition of any tile.
void read_partition(const AttentionCall& call, const AttentionSequence& sequence, const AttentionTile& tile,
                    std::int32_t kv_head, std::int32_t partition, PartitionKv& kv);

}  // namespace pagoda::cpu
