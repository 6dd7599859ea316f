#pragma once
// ScheduledBatch: one step's work as a plain record, the paper's control message (§4.6). It holds all that a
// model runner, another rank or the simulator needs, and no pointer to a running component. SampleSpec holds
// what only sampling needs; it is not sent to other ranks. The views stay valid until the scheduler's
// update() of this batch.
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
  std::uint64_t seed = 0;              // the request's
  std::uint32_t first_stream = 0;      // stream of the first candidate; candidate i uses first_stream + i
  std::uint32_t num_candidates = 1;    // independent samples (n > 1 after a prompt), or the top 2k of a beam
  bool beam = false;                   // candidates are the most likely tokens, not samples
  std::int32_t num_output_tokens = 0;  // position in the random stream; for min_tokens and penalties
  // One mask of mask_words() words for each drawn row (1 + num_draft_tokens rows); all candidates of a row
  // share its mask. Empty: every token may be drawn. Set by the engine after schedule().
  std::span<const MaskWord> masks = {};
};

struct ScheduledSequence {
  SequenceId id{};
  std::int32_t num_computed_tokens = 0;  // before this step; the position of tokens[0]
  std::span<const TokenId> tokens;       // to compute in this step, at least one
  // If not -1, `tokens` is just kTokenInFlight: the token that the previous batch draws for its sequence at
  // this index. all_tokens does not include it. Only for runners that accept several batches at once.
  std::int32_t drawn_at = -1;
  std::span<const TokenId> all_tokens;  // all known tokens, for penalties and prompt log-probabilities
  // Number of drafts at the end of `tokens` and `all_tokens`. One token is drawn after the last known token
  // and one after each draft. Nonzero only if `sample` asks for one candidate.
  std::int32_t num_draft_tokens = 0;
  std::int32_t num_prompt_tokens = 0;
  std::int32_t rotation = 0;       // rotation of queries and keys, from RotationRule; the same in every step
  AdapterId adapter = kNoAdapter;  // the same in every step
  std::span<const BlockId> block_table;  // covers num_computed_tokens + tokens.size() token slots
  std::int32_t first_row = 0;            // first row of block_table, the table of KV group 0; see KvTable
  std::span<const KvTable> more_tables;  // KV groups 1, 2, …
  bool sample = false;  // the sequence has caught up: draw as `spec` says, or return its vector
  SampleSpec spec;
  // The same in every step; unless generate, the sequence is pooled and draws nothing.
  WorkKind work = WorkKind::generate;
  PoolingSpec pooling;
  std::span<const float> pooled = {};  // StepResult::vectors of the previous chunk; only for rank 0
  bool whole_prompt = false;           // `tokens` is the whole prompt, and each token attends to all of them
  std::int32_t second_text = 0;        // as in Work; only for rank 0
  std::int32_t prompt_logprobs = -1;   // top-k for the prompt rows computed in this step; -1: none
};

// A sequence's table of KV group `group`.
inline KvTable kv_table(const ScheduledSequence& sequence, std::size_t group) {
  if (group > 0) return sequence.more_tables[group - 1];
  return {.blocks = sequence.block_table, .first_row = sequence.first_row};
}

struct ScheduledBatch {
  std::vector<SwapCopy> swap_out;       // 1st: device -> swap space
  std::vector<SwapCopy> swap_in;        // 2nd: swap space -> device
  std::vector<BlockCopy> block_copies;  // 3rd: copy-on-write
  std::vector<PageMapping> page_maps;   // before the forward pass, in this order
  // For a later step: at any time before the next batch's page_maps.
  std::vector<PageMapping> page_maps_ahead;
  std::vector<StateCopy> state_copies;  // during the forward pass; ordered by sequence and position
  // Moves of rows to and from tiers, concurrent with this step and later ones: cancels come before everything
  // else, the other moves after block_copies. A batch may consist of these alone.
  TierMoves tier_moves;
  std::vector<ScheduledSequence> sequences;  // running first, then admitted; FCFS inside each
  std::int32_t num_tokens = 0;               // sum of tokens.size() <= the token budget
  // Tokens and ended sequences that an implementation that pads a batch to its longest member would compute
  // needlessly. Our runners skip them; the simulator's cost models may count them.
  std::int32_t num_padded_tokens = 0, num_padded_sequences = 0;

  bool empty() const { return sequences.empty(); }
  bool has_work() const { return !empty() || !tier_moves.empty(); }
};

}  // namespace pagoda
