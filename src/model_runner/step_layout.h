#pragma once
// StepLayout: a ScheduledBatch as the inputs of a forward pass, in one flat image of 32-bit words, which one
// copy brings to a device and the CPU reads in place. The offsets and capacities of its sections depend only
// on the number of rows and sequences, rounded up (room_for), so that a recorded step finds the next step's
// inputs at the same addresses. Order: data per row of tokens; data per sequence, output row and state copy;
// the block tables. A lane is one page of a row of a KV group; there is a table for each sequence and lane.
// check() is the only check of a batch on any runner. Pointers, copies, swaps and mappings of a batch are not
// here.
// Threads: the runner's one caller.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/kv_group_plan.h"
#include "model_runner/output_rows.h"
#include "models/weights/adapter_set.h"
#include "request/step_result.h"
#include "scheduler/scheduled_batch.h"
#include "tensor/memory.h"

namespace pagoda {

// The limits of a runner's batches, and the form that its kernels read.
struct StepRules {
  std::int32_t max_tokens = 0, max_seqs = 0;       // per step
  std::int32_t max_context = 0;                    // tokens per sequence
  std::int32_t max_positions = 0, vocab_size = 0;  // limits of the model
  std::int32_t block_size = 0;                     // tokens per block in a plan without groups
  bool pools = false;          // rows become vectors; otherwise tokens are drawn from rows
  bool draws = true;           // this rank draws, and so needs sampling parameters
  bool fills_in = false;       // tokens that the previous batch draws are filled in later: drawn_tokens()
  OutputRowRules output = {};  // its vocab_size is set from vocab_size above
  // ragged: each table is as long as its sequence needs. by_row: all tables have the length of the longest,
  // padded with -1, and rows to draw from precede rows that are scored.
  enum class Tables { ragged, by_row };
  Tables tables = Tables::ragged;
};

// The ids that a batch may name.
struct StepIds {
  std::int64_t num_blocks = 0;  // valid in copies, swaps and states
  std::int64_t num_table_ids = 0;
  std::int64_t num_swap_blocks = 0;
  std::int64_t num_mapped_pages = 0;     // valid in mappings; 0: no mappings
  const AdapterSet* adapters = nullptr;  // the set whose adapters sequences may name; null: none
};

class StepLayout {
 public:
  StepLayout() = default;
  // resource_exhausted: the system refused memory for the image.
  static Result<StepLayout> create(const KvGroupPlan& plan, const StepRules& rules);

  // Checks the guarantees of engine and scheduler. A batch that breaks one would cause accesses outside of
  // tables, so it ends the engine with a message (internal).
  Status check(const ScheduledBatch& batch, const StepIds& ids) const;

  // Lays out a batch that passes check(). Reserves space for its scores in `result`, and draws rows that need
  // no logits.
  void lay_out(const ScheduledBatch& batch, StepResult& result);

  // Capacity of sections for `count` rows or sequences; at least rows_of_buckets() of StepGraphs for such a
  // step.
  static std::int32_t room_for(std::int32_t count);

  // True for a decode step: each sequence has one row, which is drawn from and has neither a rotation nor an
  // adapter.
  bool is_decode() const;
  // Pads a decode step to `count` rows with token 0 at position 0, which belong to no sequence.
  void pad_rows(std::int32_t count);

  // The words in use, from the start of the image, and the size of the whole allocation.
  std::span<const std::int32_t> image() const { return {words(), table_words_ + at_[kTables]}; }
  std::int64_t size_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

  std::int32_t num_rows() const { return num_rows_; }
  std::int32_t num_sequences() const { return num_sequences_; }
  std::span<const std::int32_t> token_ids() const { return rows_of(kTokenIds); }
  std::span<const std::int32_t> positions() const { return rows_of(kPositions); }
  std::span<const std::int32_t> rotations() const;    // empty: 0 for all rows
  std::span<const std::int32_t> token_types() const;  // empty: 0 for all rows
  std::span<const std::int32_t> adapters() const;     // AdapterIds; empty: kNoAdapter for all rows
  std::span<const std::int32_t> first_rows() const { return sequences_of(kFirstRows); }
  std::span<const std::int32_t> row_counts() const { return sequences_of(kRowCounts); }
  std::span<const std::int32_t> draft_counts() const { return sequences_of(kDraftCounts); }
  // Number of tokens that the last row of a sequence attends to, itself included.
  std::int32_t context_len(std::int32_t sequence) const;
  std::span<const std::int32_t> output_row_ids() const;
  std::span<const OutputRow> output_rows() const;

  // A row whose token the previous batch draws for that batch's sequence `sequence`; token_ids() has 0 for
  // the row.
  struct DrawnToken {
    std::int32_t row = 0, sequence = 0;
  };
  std::span<const DrawnToken> drawn_tokens() const { return drawn_tokens_; }

  std::int32_t num_lanes() const { return num_lanes_; }
  std::int32_t first_lane(std::int32_t group) const { return first_lane_[static_cast<std::size_t>(group)]; }
  // The blocks of a sequence from its first token on. Entries of freed rows name a block that is still in
  // use.
  std::span<const std::int32_t> table(std::int32_t sequence, std::int32_t lane) const;
  std::span<const std::int32_t> tables() const { return {words() + at_[kTables], table_words_}; }
  std::int32_t table_width() const { return table_width_; }  // by_row: the width of each table

  // Copies of states, in order: after `num_rows` rows of `sequence`, into `pages`.
  struct StateCopyRow {
    std::int32_t sequence = 0, num_rows = 0;
    std::span<const std::int32_t> pages;
  };
  std::int32_t num_state_copies() const { return num_state_copies_; }
  StateCopyRow state_copy(std::int32_t index) const;

 private:
  enum Section {
    kTokenIds,
    kPositions,
    kRotations,
    kTokenTypes,
    kAdapters,
    kFirstRows,
    kRowCounts,
    kDraftCounts,
    kTableEnds,
    kOutputRowIds,
    kOutputRows,
    kStateCopies,
    kTables,
    kNumSections
  };
  std::int32_t* words() const { return memory_.as<std::int32_t>(); }
  std::int32_t* section(Section section) const { return words() + at_[section]; }
  std::span<const std::int32_t> rows_of(Section of) const {
    return {section(of), static_cast<std::size_t>(num_rows_)};
  }
  std::span<const std::int32_t> sequences_of(Section of) const {
    return {section(of), static_cast<std::size_t>(num_sequences_)};
  }
  bool keeps_nothing() const { return groups_.empty(); }

  Status check_sequence(const ScheduledSequence& sequence, const StepIds& ids) const;
  Status check_tables(const ScheduledSequence& sequence, const StepIds& ids) const;
  Status check_copies(const ScheduledBatch& batch, const StepIds& ids) const;
  Status check_state_copies(const ScheduledBatch& batch, const StepIds& ids) const;
  std::size_t place_sections(std::int64_t rows, std::int64_t sequences);
  void put_rows(const ScheduledSequence& sequence, std::int32_t index);
  void put_pooled(const ScheduledSequence& sequence);
  void put_tables(const ScheduledBatch& batch);
  void put_whole_prompts();
  void put_output_rows();
  void put_state_copies(const ScheduledBatch& batch);

  StepRules rules_;
  std::vector<KvGroup> groups_;
  std::vector<std::int32_t> first_lane_;  // by group
  std::int32_t num_lanes_ = 1, state_pages_ = 0;
  Memory memory_;
  std::array<std::size_t, kNumSections> at_ = {};

  // State of the current batch.
  std::int32_t num_rows_ = 0, num_sequences_ = 0, num_state_copies_ = 0, table_width_ = 0;
  std::size_t table_words_ = 0;
  bool rotated_ = false, typed_ = false, adapted_ = false;
  std::vector<std::int32_t> output_ids_;  // in the order found; kept for its capacity
  std::vector<OutputRow> outputs_;
  std::vector<DrawnToken> drawn_tokens_;
  std::int32_t room_ = 0;  // rows
};

}  // namespace pagoda
