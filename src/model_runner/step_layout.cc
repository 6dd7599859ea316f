#include "model_runner/step_layout.h"

#include <algorithm>
#include <bit>
#include <ranges>
#include <type_traits>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "model_runner/vector_pooler.h"

namespace pagoda {
namespace {

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

constexpr std::size_t kOutputRowWords = sizeof(OutputRow) / sizeof(std::int32_t);
static_assert(std::is_trivially_copyable_v<OutputRow> &&
              sizeof(OutputRow) == kOutputRowWords * sizeof(std::int32_t));

constexpr std::int64_t kStateCopyWords = 2;  // words before a copy's pages
constexpr std::int64_t kLine = 16;           // words; sections begin at a cache line

}  // namespace

Result<StepLayout> StepLayout::create(const KvGroupPlan& plan, const StepRules& rules) {
  StepLayout layout;
  layout.rules_ = rules;
  layout.rules_.output.vocab_size = rules.vocab_size;
  layout.groups_ = plan.groups;
  std::int64_t table_words = 0;  // per sequence
  if (plan.groups.empty()) {
    table_words = rules.max_tokens / rules.block_size + 1;  // whole prompts
  } else {
    layout.num_lanes_ = 0;
    for (const KvGroup& group : plan.groups) {
      layout.first_lane_.push_back(layout.num_lanes_);
      layout.num_lanes_ += group.pages_per_row;
      table_words += group.pages_per_row * group.rows_for(rules.max_context);
    }
  }
  if (plan.has_states()) layout.state_pages_ = plan.groups.back().pages_per_row;
  const std::int64_t tokens = rules.max_tokens, sequences = std::min(rules.max_seqs, rules.max_tokens);
  if (rules.tables == StepRules::Tables::by_row) {
    table_words = 0;
    for (const KvGroup& group : plan.groups)
      table_words = std::max(table_words, layout.num_lanes_ * group.rows_for(rules.max_context));
  }
  const std::size_t total = layout.place_sections(tokens, sequences) +
                            as_size((sequences * table_words + kLine - 1) / kLine * kLine);
  PAGODA_ASSIGN_OR_RETURN(layout.memory_, Memory::reserve(total * sizeof(std::int32_t)));
  return layout;
}

// Returns the number of words before the tables, which come last.
std::size_t StepLayout::place_sections(std::int64_t rows, std::int64_t sequences) {
  std::array<std::int64_t, kNumSections> sizes = {};
  for (const Section by_row : {kTokenIds, kPositions, kRotations, kTokenTypes, kAdapters, kOutputRowIds})
    sizes[by_row] = rows;
  for (const Section by_sequence : {kFirstRows, kRowCounts, kDraftCounts}) sizes[by_sequence] = sequences;
  sizes[kTableEnds] = sequences * num_lanes_;
  sizes[kOutputRows] = rows * static_cast<std::int64_t>(kOutputRowWords);
  sizes[kStateCopies] = state_pages_ > 0 ? rows * (kStateCopyWords + state_pages_) : 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < kNumSections; ++i) {
    at_[i] = as_size(total);
    total += (sizes[i] + kLine - 1) / kLine * kLine;
  }
  return at_[kTables];
}

std::int32_t StepLayout::room_for(std::int32_t count) {
  if (count <= 8) return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(count)));
  const std::int32_t step = count <= 256 ? 8 : 16;
  return (count + step - 1) / step * step;
}

Status StepLayout::check(const ScheduledBatch& batch, const StepIds& ids) const {
  std::int64_t num_tokens = 0;
  for (const ScheduledSequence& sequence : batch.sequences) {
    num_tokens += std::ssize(sequence.tokens);
    PAGODA_RETURN_IF_ERROR(check_sequence(sequence, ids));
    PAGODA_RETURN_IF_ERROR(check_tables(sequence, ids));
  }
  if (std::ssize(batch.sequences) > rules_.max_seqs)
    return internal_error("a batch of more than max-num-seqs sequences");
  if (num_tokens > rules_.max_tokens)
    return internal_error(concat("a batch of ", num_tokens, " tokens is over max-num-batched-tokens"));
  PAGODA_RETURN_IF_ERROR(check_copies(batch, ids));
  return check_state_copies(batch, ids);
}

Status StepLayout::check_sequence(const ScheduledSequence& sequence, const StepIds& ids) const {
  const std::int64_t end = sequence.num_computed_tokens + std::ssize(sequence.tokens);
  if (sequence.tokens.empty() || sequence.num_computed_tokens < 0)
    return internal_error("a sequence without work");
  if (sequence.rotation < 0 || sequence.rotation > rules_.max_positions)
    return internal_error("a rotation of no length that the model has");
  if (sequence.adapter != kNoAdapter &&
      (ids.adapters == nullptr || ids.adapters->find(sequence.adapter) == nullptr))
    return internal_error("an adapter that this runner does not have");
  if (end > rules_.max_context) return internal_error(concat("position ", end - 1, " is beyond the model's"));
  const bool unknown = rules_.fills_in && sequence.drawn_at >= 0;
  if (unknown && (sequence.tokens.size() != 1 || sequence.num_draft_tokens != 0 || sequence.whole_prompt))
    return internal_error("more than one token of a sequence is not known yet");
  for (const TokenId token : sequence.tokens) {
    if (unknown && token == kTokenInFlight) continue;
    if (token < 0 || token >= rules_.vocab_size)
      return internal_error(concat("token id ", token, " is outside of the vocabulary"));
  }
  if ((sequence.work != WorkKind::generate) != rules_.pools || sequence.whole_prompt != keeps_nothing())
    return internal_error("this runner does not support the work of the batch");
  if (sequence.whole_prompt && !sequence.sample) return internal_error("a part of a whole prompt");
  if (sequence.sample && sequence.spec.params == nullptr && rules_.draws && !rules_.pools)
    return internal_error("sampling without parameters");
  const std::int32_t drafts = sequence.num_draft_tokens;
  if (drafts < 0 || drafts >= std::ssize(sequence.tokens) ||
      (drafts > 0 && (!sequence.sample || sequence.spec.num_candidates != 1 || sequence.spec.beam)))
    return internal_error("draft tokens are not allowed for this sequence");
  const std::size_t words = mask_words(rules_.vocab_size) * as_size(1 + drafts);
  if (!sequence.spec.masks.empty() && sequence.spec.masks.size() != words)
    return internal_error("masks that do not match the rows to be drawn");
  return ok_status();
}

Status StepLayout::check_tables(const ScheduledSequence& sequence, const StepIds& ids) const {
  const std::int64_t end = sequence.num_computed_tokens + std::ssize(sequence.tokens);
  if (keeps_nothing()) return ok_status();
  if (sequence.more_tables.size() + 1 != groups_.size())
    return internal_error("a sequence without a table for each KV group");
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const KvGroup& group = groups_[i];
    const KvTable table = kv_table(sequence, i);
    const std::int64_t rows = group.rows_for(end);
    if (table.first_row < 0 || table.first_row > group.first_visible_row(sequence.num_computed_tokens) ||
        std::ssize(table.blocks) % group.pages_per_row != 0 ||
        table.first_row + std::ssize(table.blocks) / group.pages_per_row < rows) {
      return internal_error("a block table does not cover its sequence");
    }
    const std::int64_t num_ids = group.is_state() ? ids.num_blocks : ids.num_table_ids;
    for (const BlockId block : table.blocks) {
      if (index(block) < 0 || index(block) >= num_ids) return internal_error("a block id is out of range");
    }
  }
  return ok_status();
}

Status StepLayout::check_copies(const ScheduledBatch& batch, const StepIds& ids) const {
  const auto is_block = [&](BlockId id) { return index(id) >= 0 && index(id) < ids.num_blocks; };
  const auto is_pair = [&](const SwapCopy& copy) {
    const auto swap = static_cast<std::int64_t>(copy.swap_block);
    return is_block(copy.block) && swap >= 0 && swap < ids.num_swap_blocks;
  };
  const auto are_blocks = [&](const BlockCopy& copy) { return is_block(copy.from) && is_block(copy.to); };
  if (!std::ranges::all_of(batch.swap_out, is_pair) || !std::ranges::all_of(batch.swap_in, is_pair) ||
      !std::ranges::all_of(batch.block_copies, are_blocks))
    return internal_error("a block to copy is out of range");
  const auto is_mapping = [&](const PageMapping& mapping) {
    if (ids.num_mapped_pages == 0 || mapping.count < 1) return false;
    const bool pages_are_there =
        index(mapping.page) >= 0 && index(mapping.page) <= ids.num_mapped_pages - mapping.count;
    if (mapping.block == kNoBlock) return pages_are_there;
    return index(mapping.block) >= 0 && index(mapping.block) <= ids.num_table_ids - mapping.count &&
           (mapping.page == kNoPage || pages_are_there);
  };
  if (!std::ranges::all_of(batch.page_maps, is_mapping) ||
      !std::ranges::all_of(batch.page_maps_ahead, is_mapping))
    return internal_error("a page to map is out of range");
  return ok_status();
}

// A state is copied whole, page by page, in runs that may come in any order.
Status StepLayout::check_state_copies(const ScheduledBatch& batch, const StepIds& ids) const {
  if (batch.state_copies.empty()) return ok_status();
  if (state_pages_ == 0) return internal_error("there is no state to copy");
  const std::int32_t pages = state_pages_;
  std::int64_t copied = 0;
  const StateCopy* before = nullptr;
  for (const StateCopy& copy : batch.state_copies) {
    if (copy.sequence < 0 || copy.sequence >= std::ssize(batch.sequences) ||
        copy.group != std::ssize(groups_) - 1 || copy.count < 1 || copy.first_page < 0 ||
        copy.first_page > pages - copy.count || index(copy.page) < 0 ||
        index(copy.page) > ids.num_blocks - copy.count)
      return internal_error("a copy of a state is out of range");
    const ScheduledSequence& of = batch.sequences[as_size(copy.sequence)];
    const std::int32_t rows = copy.position - of.num_computed_tokens;
    if (rows < 1 || rows > std::ssize(of.tokens) - of.num_draft_tokens)
      return internal_error("a copy of a state that the step does not pass");
    const bool same =
        before != nullptr && before->sequence == copy.sequence && before->position == copy.position;
    if (before != nullptr && !same &&
        (copied != pages || copy.sequence < before->sequence ||
         (copy.sequence == before->sequence && copy.position < before->position)))
      return internal_error("copies of states that are not whole or not in order");
    copied = (same ? copied : 0) + copy.count;
    before = &copy;
  }
  if (copied != pages) return internal_error("a copy of a part of a state");
  return ok_status();
}

void StepLayout::lay_out(const ScheduledBatch& batch, StepResult& result) {
  num_rows_ = num_sequences_ = num_state_copies_ = table_width_ = 0;
  table_words_ = 0;
  std::size_t num_rows = 0;
  for (const ScheduledSequence& sequence : batch.sequences) num_rows += sequence.tokens.size();
  room_ = std::min(room_for(static_cast<std::int32_t>(num_rows)), rules_.max_tokens);
  place_sections(room_, std::min({room_for(static_cast<std::int32_t>(batch.sequences.size())),
                                  rules_.max_seqs, rules_.max_tokens}));
  drawn_tokens_.clear();
  typed_ = false;
  rotated_ =
      std::ranges::any_of(batch.sequences, [](const auto& sequence) { return sequence.rotation != 0; });
  adapted_ = std::ranges::any_of(batch.sequences,
                                 [](const auto& sequence) { return sequence.adapter != kNoAdapter; });
  output_ids_.clear();
  outputs_.clear();
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const ScheduledSequence& sequence = batch.sequences[i];
    put_rows(sequence, static_cast<std::int32_t>(i));
    if (rules_.pools)
      put_pooled(sequence);
    else
      add_output_rows(batch, i, num_rows_, rules_.output, result, output_ids_, outputs_);
    num_rows_ += static_cast<std::int32_t>(sequence.tokens.size());
  }
  num_sequences_ = static_cast<std::int32_t>(batch.sequences.size());
  put_output_rows();
  if (keeps_nothing())
    put_whole_prompts();
  else
    put_tables(batch);
  put_state_copies(batch);
}

bool StepLayout::is_decode() const {
  return !rules_.pools && !keeps_nothing() && !rotated_ && !adapted_ && num_rows_ == num_sequences_ &&
         std::cmp_equal(outputs_.size(), num_rows_) &&
         std::ranges::all_of(outputs_, [](const OutputRow& row) { return row.prompt_row < 0; });
}

void StepLayout::pad_rows(std::int32_t count) {
  CHECK(is_decode() && count >= num_rows_ && count <= room_);
  for (; num_rows_ < count; ++num_rows_) {
    section(kTokenIds)[num_rows_] = section(kPositions)[num_rows_] = 0;
    section(kOutputRowIds)[num_rows_] = num_rows_;
    output_ids_.push_back(num_rows_);
  }
}

// Writes the rows of one sequence, beginning at row num_rows_.
void StepLayout::put_rows(const ScheduledSequence& sequence, std::int32_t index) {
  const auto count = static_cast<std::int32_t>(sequence.tokens.size());
  const auto put = [&](Section to, std::int32_t value) {
    std::fill_n(section(to) + num_rows_, count, value);
  };
  if (rules_.fills_in && sequence.drawn_at >= 0) {
    drawn_tokens_.push_back({.row = num_rows_, .sequence = sequence.drawn_at});
    section(kTokenIds)[num_rows_] = 0;
  } else {
    std::ranges::copy(sequence.tokens, section(kTokenIds) + num_rows_);
  }
  for (std::int32_t row = 0; row < count; ++row)
    section(kPositions)[num_rows_ + row] = sequence.num_computed_tokens + row;
  if (rotated_) put(kRotations, sequence.rotation);
  if (rules_.pools) put(kTokenTypes, 0);
  if (adapted_) put(kAdapters, static_cast<std::int32_t>(sequence.adapter));
  section(kFirstRows)[index] = num_rows_;
  section(kRowCounts)[index] = count;
  section(kDraftCounts)[index] = sequence.num_draft_tokens;
}

// Marks the rows that make a vector; rows of a prompt's second text have token type 1.
void StepLayout::put_pooled(const ScheduledSequence& sequence) {
  const Rows rows = pooled_rows(sequence);
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row)
    output_ids_.push_back(num_rows_ + static_cast<std::int32_t>(row));
  if (sequence.second_text == 0) return;
  typed_ = true;
  const auto count = static_cast<std::int32_t>(sequence.tokens.size());
  const std::int32_t first = std::clamp(sequence.second_text - sequence.num_computed_tokens, 0, count);
  std::fill_n(section(kTokenTypes) + num_rows_ + first, count - first, 1);
}

void StepLayout::put_output_rows() {
  if (rules_.tables == StepRules::Tables::ragged || rules_.pools) {  // nothing is drawn from pooled rows
    std::ranges::copy(output_ids_, section(kOutputRowIds));
    std::ranges::copy(outputs_, reinterpret_cast<OutputRow*>(section(kOutputRows)));
    return;
  }
  std::int32_t* id = section(kOutputRowIds);
  auto* row = reinterpret_cast<OutputRow*>(section(kOutputRows));
  for (const bool drawn : {true, false}) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if ((outputs_[i].prompt_row < 0) != drawn) continue;
      *id++ = output_ids_[i];
      *row++ = outputs_[i];
    }
  }
}

// Kernels index tables by position, so a table begins with the sequence's first row. Entries of freed rows
// name a block that is still in use, in case a kernel reads them.
void StepLayout::put_tables(const ScheduledBatch& batch) {
  const bool even = rules_.tables == StepRules::Tables::by_row;
  const auto rows_of = [](const KvGroup& group, const ScheduledSequence& sequence) {
    const std::int64_t end = sequence.num_computed_tokens + std::ssize(sequence.tokens);
    return static_cast<std::int32_t>(group.rows_for(end));
  };
  for (const ScheduledSequence& sequence : batch.sequences) {
    for (const KvGroup& group : groups_)
      if (even) table_width_ = std::max(table_width_, rows_of(group, sequence));
  }
  std::int32_t* const first = section(kTables);
  std::int32_t* next = first;
  std::int32_t* ends = section(kTableEnds);
  for (const ScheduledSequence& sequence : batch.sequences) {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const KvTable table = kv_table(sequence, i);
      const std::int32_t rows = rows_of(groups_[i], sequence), per_row = groups_[i].pages_per_row;
      const std::int32_t kept = std::min(rows, table.first_row);
      for (std::int32_t page = 0; page < per_row; ++page) {
        next = std::fill_n(next, kept, index(table.blocks[as_size(page)]));
        for (std::int32_t row = kept; row < rows; ++row)
          *next++ = index(table.blocks[as_size(row - table.first_row) * as_size(per_row) + as_size(page)]);
        if (even) next = std::fill_n(next, table_width_ - rows, -1);
        *ends++ = static_cast<std::int32_t>(next - first);
      }
    }
  }
  table_words_ = as_size(next - first);
}

// Gives each sequence contiguous blocks, which all layers use one after the other.
void StepLayout::put_whole_prompts() {
  std::int32_t block = 0;
  for (std::int32_t i = 0; i < num_sequences_; ++i) {
    const std::int32_t count = (row_counts()[as_size(i)] + rules_.block_size - 1) / rules_.block_size;
    for (std::int32_t row = 0; row < count; ++row, ++block) section(kTables)[block] = block;
    section(kTableEnds)[i] = block;
  }
  table_words_ = as_size(block);
}

// Joins the runs of one copy.
void StepLayout::put_state_copies(const ScheduledBatch& batch) {
  std::int32_t* to = section(kStateCopies) - (kStateCopyWords + state_pages_);
  const StateCopy* before = nullptr;
  for (const StateCopy& copy : batch.state_copies) {
    if (before == nullptr || before->sequence != copy.sequence || before->position != copy.position) {
      to += kStateCopyWords + state_pages_;
      ++num_state_copies_;
      to[0] = copy.sequence;
      to[1] = copy.position - batch.sequences[as_size(copy.sequence)].num_computed_tokens;
    }
    for (std::int32_t page = 0; page < copy.count; ++page)
      to[kStateCopyWords + copy.first_page + page] = index(copy.page) + page;
    before = &copy;
  }
}

std::span<const std::int32_t> StepLayout::rotations() const {
  return rotated_ ? rows_of(kRotations) : std::span<const std::int32_t>();
}

std::span<const std::int32_t> StepLayout::token_types() const {
  return typed_ ? rows_of(kTokenTypes) : std::span<const std::int32_t>();
}

std::span<const std::int32_t> StepLayout::adapters() const {
  return adapted_ ? rows_of(kAdapters) : std::span<const std::int32_t>();
}

std::int32_t StepLayout::context_len(std::int32_t sequence) const {
  return positions()[as_size(first_rows()[as_size(sequence)] + row_counts()[as_size(sequence)] - 1)] + 1;
}

std::span<const std::int32_t> StepLayout::output_row_ids() const {
  return {section(kOutputRowIds), output_ids_.size()};
}

std::span<const OutputRow> StepLayout::output_rows() const {
  return {reinterpret_cast<const OutputRow*>(section(kOutputRows)), outputs_.size()};
}

std::span<const std::int32_t> StepLayout::table(std::int32_t sequence, std::int32_t lane) const {
  const std::int32_t* const ends = section(kTableEnds);
  const std::int32_t at = sequence * num_lanes_ + lane, begin = at == 0 ? 0 : ends[at - 1];
  return {section(kTables) + begin, as_size(ends[at] - begin)};
}

StepLayout::StateCopyRow StepLayout::state_copy(std::int32_t at) const {
  const std::int32_t* const from = section(kStateCopies) + at * (kStateCopyWords + state_pages_);
  return {.sequence = from[0], .num_rows = from[1], .pages = {from + kStateCopyWords, as_size(state_pages_)}};
}

}  // namespace pagoda
