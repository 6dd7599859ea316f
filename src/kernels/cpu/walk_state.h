#pragma once
// walk_state: runs all rows of one sequence over a part of its recurrent state, which stays in place. The
// part starts at zero if the sequence is fresh, and is copied where stores request it. After the accepted
// rows, a copy continues, seen only by drafts. The op supplies the computation of rows. Threads: any;
// different parts of a state may run concurrently.
#include <cstring>

#include "kernels/cpu/scratch.h"
#include "kernels/sequence_state.h"

namespace pagoda::cpu {

// The part is `bytes` bytes of a piece, starting `offset` floats into it. rows(state, first, last) computes
// those rows.
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
