#pragma once
// ControlMessage: what rank 0 tells the other ranks, once per step (paper §4.6), and its bytes. A step
// carries token ids, positions, the tables of each KV group, copies, swaps, page mappings and copies of
// states, and which rows give logits or a vector: what a rank needs to compute its part and nothing for
// sampling, which rank 0 does (no parameters, no masks).
//
// The bytes are 32-bit words of the machine's own order: magic, kind, then the kind's fields. Reading trusts
// no byte: every count is checked against what is left, and nothing may be left over. Whether ids are in
// range is checked by the runner, which knows the ranges.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/kv_storage.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

enum class ControlKind : std::int32_t {
  allocate,          // take a KV cache of this size
  allocate_virtual,  // or one in reserved address space
  create_pages,      // commit more pages of that
  step,              // carry out the batch
  ping,              // nothing to do; all meet at a barrier
  release,           // give the weights' memory back, the KV cache's content stays
  release_all,       // the KV cache's memory, too
  load,              // load the weights again
  stop,              // the end
};

struct ControlMessage {
  ControlKind kind = ControlKind::ping;
  std::int64_t num_blocks = 0, num_swap_blocks = 0;  // allocate…
  std::int32_t block_size = 0;                       // allocate_virtual
  VirtualKvShape shape;                              // the same, without page_bytes, which is each rank's own
  std::int64_t first_page = 0, num_pages = 0;        // create_pages
  ScheduledBatch batch;                              // step; its views point into what follows
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;  // sequence by sequence: block_table, then its more_tables
  std::vector<KvTable> tables;  // more_tables of all sequences
};

inline constexpr std::size_t kMaxControlBytes = std::size_t{256} << 20;

// Into `bytes`, whose capacity is kept.
void encode_step(const ScheduledBatch& batch, std::vector<std::byte>& bytes);
void encode_allocate(std::int64_t num_blocks, std::int64_t num_swap_blocks, std::vector<std::byte>& bytes);
void encode_allocate_virtual(std::int32_t block_size, const VirtualKvShape& shape, std::int64_t num_blocks,
                             std::int64_t num_swap_blocks, std::vector<std::byte>& bytes);
void encode_create_pages(std::int64_t first, std::int64_t count, std::vector<std::byte>& bytes);
void encode_signal(ControlKind kind, std::vector<std::byte>& bytes);  // those without fields

// corrupt_data: not such a message. `message` is reused for its capacity.
Status decode_control(std::span<const std::byte> bytes, ControlMessage& message);

}  // namespace pagoda
