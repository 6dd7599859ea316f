#pragma once
// ScheduledBatch: one step's work as a plain record, the paper's control message (§4.6). It holds all
// that a model runner, another rank, or the simulator needs, and no pointer to anything that runs.
// What only sampling needs is in SampleSpec, and no other rank is told it.
// The views stay valid until the scheduler's update() of this batch.
#include <cstdint>
#include <span>
#include <vector>

#include "request/block_copy.h"
#include "request/ids.h"
#include "request/kv_groups.h"
#include "request/page_ops.h"
#include "request/request_adapter.h"
#include "request/sampling_params.h"
#include "request/tier_moves.h"
#include "request/token_constraint.h"
#include "request/work.h"

namespace pagoda {

// Placeholder for a token that the previous batch samples and that is not known yet.
inline constexpr TokenId kTokenInFlight = -1;

// The draws from the logits of a sequence's last computed token.
struct SampleSpec {
  const SamplingParams* params = nullptr;
  std::uint64_t seed = 0;            // the request's
  std::uint32_t first_stream = 0;    // stream of the first candidate; candidate i uses first_stream + i
  std::uint32_t num_candidates = 1;  // independent samples (n > 1 leaving a prompt), or the top 2k of a beam
  bool beam = false;                 // candidates are the most likely tokens, not samples
  std::int32_t num_output_tokens = 0;  // position in the random stream; min_tokens; penalties
  // A mask of mask_words() words for each drawn row, 1 + num_draft_tokens of them; all candidates of a row
  // share its mask. Empty: every token may be drawn. Filled in by the engine after schedule().
  std::span<const MaskWord> masks = {};
};

struct ScheduledSequence {
  SequenceId id{};
  std::int32_t num_computed_tokens = 0;  // before this step; the position of tokens[0]
  std::span<const TokenId> tokens;       // to compute in this step, at least one
  // Not -1: `tokens` is kTokenInFlight alone, the token that the batch before this one draws for its sequence
  // at this place. It is not among all_tokens. Only for runners that take several batches at once.
  std::int32_t drawn_at = -1;
  std::span<const TokenId> all_tokens;  // everything known, for penalties and prompt log-probabilities
  // The last of `tokens`, and of `all_tokens`, are drafts: drawn is after the last known token and after
  // each of them. Only where `sample` asks for one candidate.
  std::int32_t num_draft_tokens = 0;
  std::int32_t num_prompt_tokens = 0;
  std::int32_t rotation = 0;       // rotation of queries and keys, in every step of it: as RotationRule says
  AdapterId adapter = kNoAdapter;  // in every step of it
  std::span<const BlockId> block_table;  // covers num_computed_tokens + tokens.size() token slots
  std::int32_t first_row = 0;            // first row of block_table, which is KV group 0's; see KvTable
  std::span<const KvTable> more_tables;  // KV groups 1, 2, …
  bool sample = false;  // the sequence has caught up: draw as `spec` says, or give its vector
  SampleSpec spec;
  WorkKind work = WorkKind::generate;  // in every step of it; not generate: nothing is drawn, but pooled
  PoolingSpec pooling;
  std::span<const float> pooled = {};  // StepResult::vectors of its last chunk; rank 0's alone
  bool whole_prompt = false;           // `tokens` is the whole prompt, and each attends to all of them
  std::int32_t second_text = 0;        // as in Work; for rank 0 alone
  std::int32_t prompt_logprobs = -1;   // top-k for the prompt rows computed in this step; -1: none
};

// A sequence's table of KV group `group`.
inline KvTable kv_table(const ScheduledSequence& sequence, std::size_t group) {
  if (group > 0) return sequence.more_tables[group - 1];
  return {.blocks = sequence.block_table, .first_row = sequence.first_row};
}

struct ScheduledBatch {
  std::vector<SwapCopy> swap_out;            // first: device -> swap space
  std::vector<SwapCopy> swap_in;             // then: swap space -> device
  std::vector<BlockCopy> block_copies;       // then: copy-on-write
  std::vector<PageMapping> page_maps;        // before the forward pass, in this order
  std::vector<PageMapping> page_maps_ahead;  // for a later step: any time before the next batch's page_maps
  std::vector<StateCopy> state_copies;       // during the forward pass; ordered by sequence and position
  // Rows to and from tiers, beside this step and later ones: cancels before anything else, the others after
  // block_copies. A batch may have these alone.
  TierMoves tier_moves;
  std::vector<ScheduledSequence> sequences;  // running first, then admitted; FCFS inside each
  std::int32_t num_tokens = 0;               // sum of tokens.size() <= the token budget
  // Tokens, and sequences that have ended, that an implementation which pads a batch to its longest member
  // computes for nothing. Our runners leave them out; the simulator's cost models may count them.
  std::int32_t num_padded_tokens = 0, num_padded_sequences = 0;

  bool empty() const { return sequences.empty(); }
  bool has_work() const { return !empty() || !tier_moves.empty(); }
};

}  // namespace pagoda
