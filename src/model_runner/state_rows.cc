// States of LocalModelRunner: where the pieces of each sequence's state are in this step, and where copies of
// it go. Their tables name pages of the pool, in a virtual cache too.
#include <utility>

#include "model_runner/local_model_runner.h"

namespace pagoda {

void LocalModelRunner::show_states() {
  const std::size_t num_pieces = kv_plan_.pieces.size();
  const auto sequences = static_cast<std::size_t>(step_.num_sequences());
  const auto copies = static_cast<std::size_t>(step_.num_state_copies());
  const std::int32_t lane = step_.first_lane(kv_plan_.state_group());
  state_pieces_.clear();
  const auto put_piece = [&](std::int32_t page, const StatePlace& place) {
    kv_.note_used(BlockId{page});
    state_pieces_.push_back(reinterpret_cast<float*>(kv_.page(BlockId{page}) + place.offset));
  };
  for (std::int32_t i = 0; i < step_.num_sequences(); ++i)
    for (const StatePlace& place : kv_plan_.pieces)
      put_piece(step_.table(i, lane + place.page).front(), place);
  for (std::int32_t i = 0; i < step_.num_state_copies(); ++i)
    for (const StatePlace& place : kv_plan_.pieces)
      put_piece(step_.state_copy(i).pages[static_cast<std::size_t>(place.page)], place);
  // Only now does the vector of pieces stay in place.
  state_stores_.clear();
  for (std::size_t i = 0; i < copies; ++i)
    state_stores_.push_back({.num_rows = step_.state_copy(static_cast<std::int32_t>(i)).num_rows,
                             .pieces = state_pieces_.data() + (sequences + i) * num_pieces});
  state_sequences_.clear();
  std::size_t store = 0;
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::size_t first = store;
    while (store < copies && std::cmp_equal(step_.state_copy(static_cast<std::int32_t>(store)).sequence, i))
      ++store;
    const std::int32_t num_rows = step_.row_counts()[i];
    state_sequences_.push_back({.first_row = step_.first_rows()[i],
                                .num_rows = num_rows,
                                .num_drafts = step_.draft_counts()[i],
                                .fresh = step_.context_len(static_cast<std::int32_t>(i)) == num_rows,
                                .pieces = state_pieces_.data() + i * num_pieces,
                                .stores = std::span(state_stores_).subspan(first, store - first)});
  }
  layer_states_.clear();
  for (const std::int32_t first : kv_plan_.first_piece)
    layer_states_.push_back({.sequences = state_sequences_, .first_piece = first});
}

}  // namespace pagoda
