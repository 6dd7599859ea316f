#pragma once
// ControlMessage: the message that rank 0 sends to the other ranks once per step (paper §4.6), and its
// encoding. A step carries all that a rank needs to compute its part: token ids, positions, the tables of
// each KV group, copies, swaps, page mappings, copies of states, and the rows that produce logits or a
// vector. It carries nothing for sampling (no parameters, no masks), which only rank 0 does.
//
// The encoding is 32-bit words in the machine's byte order: magic, kind, then the fields of that kind. The
// decoder trusts no byte: each count is checked against the remaining bytes, and trailing bytes are an error.
// The runner checks that ids are in range, since only it knows the ranges.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/kv_storage.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

enum class ControlKind : std::int32_t {
  allocate,          // allocate a KV cache of this size
  allocate_virtual,  // allocate a KV cache in reserved address space
  create_pages,      // commit more pages of the virtual KV cache
  step,              // carry out the batch
  ping,              // no work; all ranks meet at a barrier
  release,           // free the weights' memory; the KV cache keeps its content
  release_all,       // free the KV cache's memory, too
  load,              // load the weights again
  stop,              // leave the worker loop
};

struct ControlMessage {
  ControlKind kind = ControlKind::ping;
  std::int64_t num_blocks = 0, num_swap_blocks = 0;  // allocate…
  std::int32_t block_size = 0;                       // allocate_virtual
  VirtualKvShape shape;                        // allocate_virtual; without page_bytes, which differs by rank
  std::int64_t first_page = 0, num_pages = 0;  // create_pages
  ScheduledBatch batch;                        // step; its views point into the vectors below
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;  // sequence by sequence: block_table, then its more_tables
  std::vector<KvTable> tables;  // more_tables of all sequences
};

inline constexpr std::size_t kMaxControlBytes = std::size_t{256} << 20;

// Writes into `bytes`, reusing its capacity.
void encode_step(const ScheduledBatch& batch, std::vector<std::byte>& bytes);
void encode_allocate(std::int64_t num_blocks, std::int64_t num_swap_blocks, std::vector<std::byte>& bytes);
void encode_allocate_virtual(std::int32_t block_size, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks, std::vector<std::byte>& bytes);
void encode_create_pages(std::int64_t first, std::int64_t count, std::vector<std::byte>& bytes);
void encode_signal(ControlKind kind, std::vector<std::byte>& bytes);  // kinds without fields

// corrupt_data: not a valid message. `message` is reused for its capacity.
Status decode_control(std::span<const std::byte> bytes, ControlMessage& message);

}  // namespace pagoda
