#pragma once
// DebugSnapshot: what the engine holds at one moment, between two steps: for people who ask where the memory
// is and why a request waits. A copy; nothing in it refers to the engine.
#include <cstdint>
#include <string>
#include <vector>

#include "request/kv_groups.h"
#include "request/kv_usage.h"
#include "request/sequence.h"

namespace pagoda {

struct SequenceSnapshot {
  SequenceId id{};
  std::int32_t index = 0;
  SequenceState state = SequenceState::parked;
  std::int32_t num_tokens = 0, num_computed_tokens = 0;
  std::vector<BlockId> blocks;           // in the pool, KV group after KV group; empty unless resident
  std::vector<std::int32_t> ref_counts;  // of these
  std::int64_t num_swapped_blocks = 0;   // in the swap space
};

struct RequestSnapshot {
  RequestId id{};
  GroupState state = GroupState::waiting;
  std::int64_t position = 0;       // in its queue, 0 is next; among the running by age
  std::int64_t blocks_needed = 0;  // to be let in; 0 when it runs
  std::int64_t blocks_free = 0;
  std::string reason;  // one sentence: why it waits, or that it runs
  std::int32_t num_preemptions = 0, num_cached_tokens = 0, num_prompt_tokens = 0;
  std::int64_t num_output_tokens = 0;
  std::vector<SequenceSnapshot> sequences;  // those not finished
};

// Sums since the start: the difference of two tells of the time between.
struct EngineTotals {
  std::int64_t steps = 0;
  KvUsage usage;                   // of the pool after each step, all steps together
  std::int64_t blocks_copied = 0;  // copy-on-write
  std::int64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  std::int64_t preemptions = 0, preemptions_by_swap = 0;
  std::int64_t batched_tokens = 0, padded_tokens = 0;
  std::int64_t running_requests = 0;  // in each step, all steps together
};

struct DebugSnapshot {
  std::int64_t block_size = 0, num_blocks = 0, num_free_blocks = 0;
  std::int64_t num_available_blocks = 0;  // free, and not set aside for prompts that were let in
  std::vector<KvGroup> groups;
  std::int64_t num_swap_blocks = 0, num_free_swap_blocks = 0;
  KvUsage usage;
  EngineTotals totals;
  std::vector<RequestSnapshot> requests;  // by state (running, swapped, waiting) and position
};

}  // namespace pagoda
