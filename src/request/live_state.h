#pragma once
// LiveState: what the engine holds between two steps and what has happened since the last time, as plain
// numbers: for the page's live view and for files of runs (page/live_frames.h makes text of it). Leaner than
// DebugSnapshot: one list of block ids for all tables, codes for sentences. A copy; nothing in it refers to
// the engine. Units: times in ns of the engine's clock. Threads: none; it is handed over whole.
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "request/kv_groups.h"
#include "request/pool_event.h"
#include "request/sequence.h"

namespace pagoda {

// Why a request is where it is.
enum class StandingCode : std::uint8_t {
  running,
  parked,          // it runs, and some of its sequences wait for blocks
  swapped_blocks,  // swapped out; waits for blocks
  swapped_turn,    // swapped out; others come back first
  before,          // others are before it
  swapped_first,   // swapped-out requests come back before anyone else
  gang_first,      // a preempted request brings its sequences back first
  sequences,       // max_num_seqs
  blocks,          // it needs more blocks than are free
  budget,          // its turn under the step's budget of tokens
  batch,           // the batch runs to its end first
};

struct LiveSequence {
  SequenceId id{};
  std::int32_t index = 0;
  SequenceState state = SequenceState::parked;
  std::int32_t num_tokens = 0, num_computed_tokens = 0;
  float cumulative_logprob = 0;
  std::int32_t first_virtual = -1;  // where its slot begins, under a manager that shows pages in slots
  std::int32_t num_swapped = 0;     // blocks in the swap space
  std::uint32_t first_block = 0, num_blocks = 0;  // of LiveState::blocks

  bool operator==(const LiveSequence&) const = default;
};

struct LiveRequest {
  RequestId id{};
  GroupState state = GroupState::waiting;
  StandingCode code = StandingCode::running;
  bool beam = false;
  std::int64_t position = 0, blocks_needed = 0;
  std::int32_t num_preemptions = 0, num_cached_tokens = 0, num_prompt_tokens = 0;
  TimeNs arrival = 0, first_scheduled = 0, first_token = 0;  // 0: not yet
  std::uint32_t first_sequence = 0, num_sequences = 0;       // of LiveState::sequences

  bool operator==(const LiveRequest&) const = default;
};

struct LivePrefix {
  std::string name;
  std::vector<BlockId> blocks;

  bool operator==(const LivePrefix&) const = default;
};

// One step that has run.
struct LiveStep {
  std::int64_t number = 0;
  TimeNs started = 0, finished = 0;
  std::int32_t prefill_tokens = 0, decode_tokens = 0, draft_tokens = 0, new_tokens = 0;
  std::int32_t num_sequences = 0, num_preempted = 0, num_copies = 0, num_swapped_out = 0, num_swapped_in = 0;
  std::int64_t num_waiting = 0, num_running = 0, blocks_in_use = 0;
};

// A request that has ended.
struct LiveEnded {
  RequestId id{};
  FinishReason reason = FinishReason::abort;
  TimeNs arrival = 0, first_scheduled = 0, first_token = 0, ended = 0;
  std::int64_t num_prompt_tokens = 0, num_cached_tokens = 0, num_output_tokens = 0;
  std::int32_t num_preemptions = 0;
};

struct LiveEvent {
  std::int64_t step = 0;
  PoolEvent event;
};

struct LiveState {
  // What this engine is.
  std::string manager;
  std::int64_t block_size = 0, num_blocks = 0, num_swap_blocks = 0;
  std::int32_t max_num_seqs = 0, max_num_batched_tokens = 0, max_model_len = 0;
  std::vector<KvGroup> groups;

  // What it holds.
  std::int64_t step = 0;
  bool every_step = false;  // the next step's state follows, too: none is left out
  TimeNs now = 0;
  std::int64_t num_available_blocks = 0, num_free_swap_blocks = 0;
  std::vector<LiveRequest> requests;    // running, swapped, waiting; each in its order
  std::vector<LiveSequence> sequences;  // those not finished
  std::vector<BlockId> blocks;
  std::vector<BlockId> cached;  // nobody's, content kept; the next to be evicted first
  std::vector<LivePrefix> prefixes;

  // What has happened since the state before; bounded: what did not fit is only counted.
  std::vector<LiveStep> steps;
  std::vector<LiveEvent> events;
  std::vector<LiveEnded> ended;
  std::int64_t num_missed = 0;
};

}  // namespace pagoda
