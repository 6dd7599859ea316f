#pragma once
// What a recurrent layer keeps of a sequence, as its kernels see it: some pieces of float32, each contiguous,
// in place from step to step. What stands in a piece is the layer's own affair (columns of a convolution, a
// matrix of a head). Not who owns the pages they lie in: that is kv_cache/ and model_runner/.
//
//   rows of the sequence in this step    r0 r1 r2 | d0 d1      d: drafts, not yet known to be right
//   state                              S ------> S' . . .      what drafts make of it is seen by them alone
//
// A kernel goes through a sequence's rows strictly in order: it reads `pieces` (zeros if `fresh`), gives
// every row its result, and writes the state as it is behind the row before the first draft back to `pieces`;
// and, in passing, as it is behind store.num_rows rows to store.pieces. Whoever keeps a tile of the state in
// the nearest cache stores it at these places and goes on in the tile. Drafts that were right come again in
// the next step as ordinary rows, and are computed to the same bits. Invariant: a row's result and the state
// depend on the sequence's own rows alone, not on how they are cut into steps. So one code for one row and
// for many, and no rounding but to float32 between rows.
#include <cstdint>
#include <span>

namespace pagoda {

struct StateStore {
  std::int32_t num_rows = 0;  // of the sequence's in this step: 1 to num_rows - num_drafts
  float* const* pieces = nullptr;
};

struct StateSequence {
  std::int32_t first_row = 0;   // of the batch
  std::int32_t num_rows = 0;    // 1 or more, drafts included
  std::int32_t num_drafts = 0;  // the last of them; fewer than num_rows
  bool fresh = false;           // begins here: the state is zeros, and what lies in `pieces` means nothing
  // Of all layers with state, one after the other: a layer's are those from LayerStates::first_piece on.
  float* const* pieces = nullptr;
  std::span<const StateStore> stores = {};  // ascending by num_rows
};

// One layer's view of that.
struct LayerStates {
  std::span<const StateSequence> sequences = {};  // all of the batch, in its order
  std::int32_t first_piece = 0;

  float* piece(const StateSequence& sequence, std::int32_t index) const {
    return sequence.pieces[first_piece + index];
  }
  float* piece(const StateStore& store, std::int32_t index) const {
    return store.pieces[first_piece + index];
  }
};

}  // namespace pagoda
