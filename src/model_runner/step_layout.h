#pragma once
// StepLayout: a ScheduledBatch as the inputs of a forward pass, in one flat image of 32-bit words: one copy
// brings a step to a device. Places and capacities of its sections are the same for steps of as many rows and
// sequences, rounded up (room_for), so that a recorded step finds the next one's inputs at the same
// addresses. The CPU reads the image in place. First what each row of tokens has, then what each sequence,
// output row and copy of a state has, the block tables last. A lane is one page of a row of a KV group: there
// is a table for each sequence and lane. check() is the only check of a batch, whatever runs it. Not here:
// pointers, and the copies, swaps and mappings of a batch. Threads: the runner's one caller.
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

// The limits of a runner's batches, and the form in which its kernels read them.
struct StepRules {
  std::int32_t max_tokens = 0, max_seqs = 0;       // a step's
  std::int32_t max_context = 0;                    // tokens of a sequence
  std::int32_t max_positions = 0, vocab_size = 0;  // the model's
  std::int32_t block_size = 0;                     // tokens of a block of a plan without groups
  bool pools = false;                              // vectors are made of rows; else rows are drawn from
  bool draws = true;                               // this rank draws, and so needs parameters
  bool fills_in = false;       // tokens that the batch before draws are filled in later: drawn_tokens()
  OutputRowRules output = {};  // its vocab_size is this one's
  // ragged: each table as long as its sequence. by_row: all as long as the longest, filled up with -1; rows
  // to draw from come before those that are scored.
  enum class Tables { ragged, by_row };
  Tables tables = Tables::ragged;
};

// The ids that a batch may name.
struct StepIds {
  std::int64_t num_blocks = 0;  // copies, swaps and states name these
  std::int64_t num_table_ids = 0;
  std::int64_t num_swap_blocks = 0;
  std::int64_t num_mapped_pages = 0;     // that mappings may show; 0: nothing is mapped
  const AdapterSet* adapters = nullptr;  // whose adapters sequences may name; null: none
};

class StepLayout {
 public:
  StepLayout() = default;
  // resource_exhausted: the system refuses the image.
  static Result<StepLayout> create(const KvGroupPlan& plan, const StepRules& rules);

  // Checks the guarantees of engine and scheduler. A batch that breaks one would reach outside of tables, so
  // it ends the engine with a message (internal) instead.
  Status check(const ScheduledBatch& batch, const StepIds& ids) const;

  // Lays out a batch that check() takes. Makes room for its scores in `result` and settles what needs no
  // logits.
  void lay_out(const ScheduledBatch& batch, StepResult& result);

  // The room that sections have for so many rows or sequences: no less than rows_of_buckets() of StepGraphs
  // has for a step of so many.
  static std::int32_t room_for(std::int32_t count);

  // Whether each sequence has one row, which is drawn from and has no rotation or adapter of its own: a
  // decode step.
  bool is_decode() const;
  // Adds rows of token 0 at position 0, of no sequence, to a decode step, until there are so many.
  void pad_rows(std::int32_t count);

  // The words in use, from the image's start on, and all that it may ever have.
  std::span<const std::int32_t> image() const { return {words(), table_words_ + at_[kTables]}; }
  std::int64_t size_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

  std::int32_t num_rows() const { return num_rows_; }
  std::int32_t num_sequences() const { return num_sequences_; }
  std::span<const std::int32_t> token_ids() const { return rows_of(kTokenIds); }
  std::span<const std::int32_t> positions() const { return rows_of(kPositions); }
  std::span<const std::int32_t> rotations() const;    // empty: 0 for all
  std::span<const std::int32_t> token_types() const;  // empty: 0 for all
  std::span<const std::int32_t> adapters() const;     // AdapterIds; empty: kNoAdapter for all
  std::span<const std::int32_t> first_rows() const { return sequences_of(kFirstRows); }
  std::span<const std::int32_t> row_counts() const { return sequences_of(kRowCounts); }
  std::span<const std::int32_t> draft_counts() const { return sequences_of(kDraftCounts); }
  // Tokens that the last row of a sequence attends to, itself included.
  std::int32_t context_len(std::int32_t sequence) const;
  std::span<const std::int32_t> output_row_ids() const;
  std::span<const OutputRow> output_rows() const;

  // Rows whose token the batch before draws for its sequence `sequence`; 0 in token_ids().
  struct DrawnToken {
    std::int32_t row = 0, sequence = 0;
  };
  std::span<const DrawnToken> drawn_tokens() const { return drawn_tokens_; }

  std::int32_t num_lanes() const { return num_lanes_; }
  std::int32_t first_lane(std::int32_t group) const { return first_lane_[static_cast<std::size_t>(group)]; }
  // Blocks of a sequence from its first token on. Rows that were given back name one that is still there.
  std::span<const std::int32_t> table(std::int32_t sequence, std::int32_t lane) const;
  std::span<const std::int32_t> tables() const { return {words() + at_[kTables], table_words_}; }
  std::int32_t table_width() const { return table_width_; }  // by_row: of each

  // The copies of states, in order: after how many rows of which sequence, and where the pages are.
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

  // The batch's.
  std::int32_t num_rows_ = 0, num_sequences_ = 0, num_state_copies_ = 0, table_width_ = 0;
  std::size_t table_words_ = 0;
  bool rotated_ = false, typed_ = false, adapted_ = false;
  std::vector<std::int32_t> output_ids_;  // as they are found; kept for their capacity
  std::vector<OutputRow> outputs_;
  std::vector<DrawnToken> drawn_tokens_;
  std::int32_t room_ = 0;  // rows
};

}  // namespace pagoda
