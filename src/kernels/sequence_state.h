#pragma once
// A recurrent layer's state of a sequence, as its kernels see it: pieces of float32, each contiguous, changed
// in place by every step. A piece's contents are the layer's own affair (columns of a convolution, a matrix
// of a head); its page belongs to kv_cache/ and model_runner/. In a step of rows r0 r1 r2 and drafts d0 d1:
//   * rows are computed strictly in order, from `pieces` (zeros if `fresh`); `pieces` then holds the state
//     behind r2, and store.pieces the state behind store.num_rows rows;
//   * drafts go on from there, and their states are seen by them alone: drafts that were right come again as
//     rows;
//   * results and state depend on the sequence's own rows alone, not on how they are cut into steps, so one
//     code serves one row and many, and nothing is rounded but to float32 between rows.
#include <cstdint>
#include <span>

namespace pagoda {

struct StateStore {
  std::int32_t num_rows = 0;  // rows of the sequence in this step: 1 to num_rows - num_drafts
  float* const* pieces = nullptr;
};

struct StateSequence {
  std::int32_t first_row = 0;   // row of the batch
  std::int32_t num_rows = 0;    // 1 or more, drafts included
  std::int32_t num_drafts = 0;  // the last of them; fewer than num_rows
  bool fresh = false;           // begins here: the state is zeros, and what lies in `pieces` means nothing
  // Pieces of all layers with state, one after the other: a layer's are those from LayerStates::first_piece
  // on.
  float* const* pieces = nullptr;
  std::span<const StateStore> stores = {};  // ascending by num_rows
};

// One layer's view of that.
struct LayerStates {
  std::span<const StateSequence> sequences = {};  // all of the batch, in its order
  std::int32_t first_piece = 0;
  std::int32_t num_pieces = 0;  // all layers have together

  float* piece(const StateSequence& sequence, std::int32_t index) const {
    return sequence.pieces[first_piece + index];
  }
  float* piece(const StateStore& store, std::int32_t index) const {
    return store.pieces[first_piece + index];
  }
};

}  // namespace pagoda
