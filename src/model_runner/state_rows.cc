// States of LocalModelRunner: where the pieces of each sequence's state are in this step, and where copies of
// it go. Their tables name pages of the pool, in a virtual cache too.
#include <algorithm>

#include "model_runner/local_model_runner.h"

namespace pagoda {

// A state is copied whole, page by page, in runs that may come in any order.
Status LocalModelRunner::check_state_copies(const ScheduledBatch& batch) const {
  if (batch.state_copies.empty()) return ok_status();
  if (!kv_plan_.has_states()) return internal_error("there is no state to copy");
  const std::int32_t pages = kv_plan_.groups.back().pages_per_row;
  std::int64_t copied = 0;
  const StateCopy* before = nullptr;
  for (const StateCopy& copy : batch.state_copies) {
    if (copy.sequence < 0 || copy.sequence >= std::ssize(batch.sequences) ||
        copy.group != kv_plan_.state_group() || copy.count < 1 || copy.first_page < 0 ||
        copy.first_page > pages - copy.count || index(copy.page) < 0 ||
        index(copy.page) > kv_.num_blocks() - copy.count)
      return internal_error("a copy of a state is out of range");
    const ScheduledSequence& of = batch.sequences[static_cast<std::size_t>(copy.sequence)];
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

void LocalModelRunner::flatten_states(const ScheduledBatch& batch) {
  const std::size_t num_pieces = kv_plan_.pieces.size();
  state_pieces_.clear();
  const auto piece_in = [&](BlockId page, const StatePlace& place) {
    return reinterpret_cast<float*>(kv_.page(page) + place.offset);
  };
  for (const ScheduledSequence& sequence : batch.sequences) {
    const KvTable table = kv_table(sequence, static_cast<std::size_t>(kv_plan_.state_group()));
    for (const BlockId page : table.blocks) kv_.note_used(page);
    for (const StatePlace& place : kv_plan_.pieces)
      state_pieces_.push_back(piece_in(table.blocks[static_cast<std::size_t>(place.page)], place));
  }
  // Then those of the copies; runs of one copy stand together.
  const auto& copies = batch.state_copies;
  std::vector<std::size_t>& firsts = table_ends_;  // by copy: its first run
  firsts.clear();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (i == 0 || copies[i].sequence != copies[i - 1].sequence ||
        copies[i].position != copies[i - 1].position) {
      firsts.push_back(i);
      state_pieces_.resize(state_pieces_.size() + num_pieces);
    }
    const std::size_t begin = state_pieces_.size() - num_pieces;
    for (std::size_t piece = 0; piece < num_pieces; ++piece) {
      const StatePlace& place = kv_plan_.pieces[piece];
      const std::int32_t at = place.page - copies[i].first_page;
      if (at >= 0 && at < copies[i].count)
        state_pieces_[begin + piece] = piece_in(BlockId{index(copies[i].page) + at}, place);
    }
    for (std::int32_t at = 0; at < copies[i].count; ++at) kv_.note_used(BlockId{index(copies[i].page) + at});
  }
  // Only now does the vector of pieces stay in place.
  state_stores_.clear();
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const StateCopy& copy = copies[firsts[i]];
    const ScheduledSequence& of = batch.sequences[static_cast<std::size_t>(copy.sequence)];
    state_stores_.push_back({.num_rows = copy.position - of.num_computed_tokens,
                             .pieces = state_pieces_.data() + (batch.sequences.size() + i) * num_pieces});
  }
  state_sequences_.clear();
  std::size_t store = 0;
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const ScheduledSequence& sequence = batch.sequences[i];
    const std::size_t first = store;
    while (store < firsts.size() && std::cmp_equal(copies[firsts[store]].sequence, i)) ++store;
    state_sequences_.push_back({.first_row = sequences_[i].query_start,
                                .num_rows = sequences_[i].num_queries,
                                .num_drafts = sequence.num_draft_tokens,
                                .fresh = sequence.num_computed_tokens == 0,
                                .pieces = state_pieces_.data() + i * num_pieces,
                                .stores = std::span(state_stores_).subspan(first, store - first)});
  }
  layer_states_.clear();
  for (const std::int32_t first : kv_plan_.first_piece)
    layer_states_.push_back({.sequences = state_sequences_, .first_piece = first});
}

}  // namespace pagoda
