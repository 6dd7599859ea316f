#pragma once
// EngineSnapshot: an engine's state between two steps, and the events since the previous snapshot, as plain
// numbers. Source for /debug/kv, the page's frames (page/live_frames.h), run files, the log line and the C
// library's statistics. It holds no reference into the engine. Lists are flat: a request names its range of
// sequences, a sequence its range of blocks. Units: ns of the engine's clock. Threads: none; moved as a
// whole.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "request/kv_groups.h"
#include "request/kv_usage.h"
#include "request/pool_event.h"
#include "request/sequence.h"
#include "request/standing_code.h"

namespace pagoda {

// Level of detail per request. `full` adds the reason given by the scheduler, and the reference counts of
// blocks; `lean` is cheap enough to take ten times a second.
enum class SnapshotDetail : std::uint8_t { lean, full };

struct SequenceSnapshot {
  SequenceId id{};
  std::int32_t index = 0;
  SequenceState state = SequenceState::parked;
  std::int32_t num_tokens = 0, num_computed_tokens = 0;
  float cumulative_logprob = 0;
  std::int32_t first_virtual = -1;  // start of its slot; only for managers that map pages into slots
  std::int32_t num_swapped = 0;     // blocks in the swap space
  std::uint32_t first_block = 0, num_blocks = 0;  // range in EngineSnapshot::blocks; empty unless resident

  bool operator==(const SequenceSnapshot&) const = default;
};

struct RequestSnapshot {
  RequestId id{};
  GroupState state = GroupState::waiting;
  StandingCode code = StandingCode::running;
  bool beam = false;
  std::int64_t position = 0;       // in its queue, 0 is next; running requests: by age
  std::int64_t blocks_needed = 0;  // for admission; lean: only for the first request of a queue
  std::string reason = {};         // one sentence: why the request waits, or that it runs; full only
  std::string adapter = {};        // adapter name; empty: none; full only
  std::int32_t num_preemptions = 0, num_cached_tokens = 0, num_prompt_tokens = 0;
  std::int64_t num_output_tokens = 0;
  TimeNs arrival = 0, first_scheduled = 0, first_token = 0;  // 0: not yet
  std::uint32_t first_sequence = 0, num_sequences = 0;       // range in EngineSnapshot::sequences

  bool operator==(const RequestSnapshot&) const = default;
};

struct PrefixSnapshot {
  std::string name;
  std::vector<BlockId> blocks;

  bool operator==(const PrefixSnapshot&) const = default;
};

// One step that has run.
struct StepSnapshot {
  std::int64_t number = 0;
  TimeNs started = 0, finished = 0;
  std::int32_t prefill_tokens = 0, decode_tokens = 0, draft_tokens = 0, new_tokens = 0;
  std::int32_t num_sequences = 0, num_preempted = 0, num_copies = 0, num_swapped_out = 0, num_swapped_in = 0;
  std::int64_t num_waiting = 0, num_running = 0, blocks_in_use = 0;
};

// A request that has ended.
struct EndedSnapshot {
  RequestId id{};
  FinishReason reason = FinishReason::abort;
  TimeNs arrival = 0, first_scheduled = 0, first_token = 0, ended = 0;
  std::int64_t num_prompt_tokens = 0, num_cached_tokens = 0, num_output_tokens = 0;
  std::int32_t num_preemptions = 0;
};

struct EventSnapshot {
  std::int64_t step = 0;
  PoolEvent event;
};

// Sums since the start; subtract two snapshots to get the totals of the interval.
struct EngineTotals {
  std::int64_t steps = 0;
  KvUsage usage;                   // pool usage after each step, summed over all steps
  std::int64_t blocks_copied = 0;  // copy-on-write
  std::int64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  std::int64_t preemptions = 0, preemptions_by_swap = 0;
  std::int64_t batched_tokens = 0, padded_tokens = 0;
  std::int64_t running_requests = 0;  // running requests of each step, summed over all steps
  std::int64_t prompt_tokens = 0, generation_tokens = 0;
  std::int64_t prefix_cache_queries = 0, prefix_cache_hits = 0;  // tokens
};

struct EngineSnapshot {
  // The engine.
  std::string manager;
  std::int64_t block_size = 0, num_blocks = 0, num_swap_blocks = 0;
  std::int32_t max_num_seqs = 0, max_num_batched_tokens = 0, max_model_len = 0;
  std::vector<KvGroup> groups;

  // The engine's current state.
  std::int64_t step = 0;
  TimeNs now = 0;
  std::int64_t num_free_blocks = 0;
  std::int64_t num_available_blocks = 0;  // free, and not promised to admitted prompts
  std::int64_t num_free_swap_blocks = 0;
  KvUsage usage;
  EngineTotals totals;
  std::vector<RequestSnapshot> requests;    // running, swapped, waiting; each in queue order
  std::vector<SequenceSnapshot> sequences;  // unfinished
  std::vector<BlockId> blocks;              // all tables, KV group by KV group
  std::vector<std::int32_t> ref_counts;     // references to `blocks`; full only
  std::vector<BlockId> cached;              // unreferenced, content kept; next to be evicted first
  std::vector<PrefixSnapshot> prefixes;

  // Events since the previous snapshot (engine/live_feed.h). Bounded: events that do not fit are only
  // counted, in num_missed.
  std::vector<StepSnapshot> steps;
  std::vector<EventSnapshot> events;
  std::vector<EndedSnapshot> ended;
  std::int64_t num_missed = 0;
  bool every_step = false;  // the next step also takes a snapshot, so no step is skipped

  std::span<const SequenceSnapshot> sequences_of(const RequestSnapshot& request) const {
    return std::span(sequences).subspan(request.first_sequence, request.num_sequences);
  }
  std::span<const BlockId> blocks_of(const SequenceSnapshot& sequence) const {
    return std::span(blocks).subspan(sequence.first_block, sequence.num_blocks);
  }
  std::span<const std::int32_t> ref_counts_of(const SequenceSnapshot& sequence) const {
    return std::span(ref_counts).subspan(sequence.first_block, sequence.num_blocks);
  }
};

}  // namespace pagoda
