#pragma once
// walk_state: all rows of one sequence over a part of its recurrent state that stays where it is: it begins
// at zero if it is fresh, is copied where stores want it, and behind the rows that stand goes on as a copy,
// which only drafts see. The rows themselves are the op's. Threads: any; parts of a state side by side.
#include <cstring>

#include "kernels/cpu/scratch.h"
#include "kernels/sequence_state.h"

namespace pagoda::cpu {

// The part: `bytes` of a piece, from `offset` floats on. rows(state, first, last) goes through those rows.
template <class Rows>
void walk_state(const LayerStates& states, const StateSequence& sequence, std::int32_t piece,
                std::int64_t offset, std::size_t bytes, const Rows& rows) {
  thread_local Scratch scratch;
  float* const kept = states.piece(sequence, piece) + offset;
  if (sequence.fresh) std::memset(kept, 0, bytes);
  std::int32_t row = 0;
  const auto go_to = [&](float* state, std::int32_t end) {
    if (end > row) rows(state, row, end);
    row = end;
  };
  for (const StateStore& store : sequence.stores) {
    go_to(kept, store.num_rows);
    std::memcpy(states.piece(store, piece) + offset, kept, bytes);
  }
  go_to(kept, sequence.num_rows - sequence.num_drafts);
  if (sequence.num_drafts == 0) return;
  auto* const drafted = reinterpret_cast<float*>(scratch.take(bytes));
  std::memcpy(drafted, kept, bytes);
  go_to(drafted, sequence.num_rows);
}

}  // namespace pagoda::cpu
