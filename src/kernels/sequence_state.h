#pragma once
// A recurrent layer's state of a sequence, as its kernels see it: pieces of float32, each contiguous, updated
// in place by every step. The meaning of a piece is private to the layer (columns of a convolution, a matrix
// of a head); its page belongs to kv_cache/ and model_runner/. In a step with rows r0 r1 r2 and drafts d0 d1:
//   * rows are computed strictly in order, starting from `pieces` (zeros if `fresh`); afterwards `pieces`
//     holds the state after r2, and store.pieces the state after store.num_rows rows;
//   * drafts continue from there, and only drafts see their states: accepted drafts come again as rows;
//   * results and state depend only on the sequence's own rows, not on their division into steps, so the
//     same code serves one row and many, and between rows nothing is rounded except to float32.
#include <cstdint>
#include <span>

namespace pagoda {

struct StateStore {
  std::int32_t num_rows = 0;  // after this many rows of the sequence in this step: 1 to num_rows - num_drafts
  float* const* pieces = nullptr;
};

struct StateSequence {
  std::int32_t first_row = 0;   // at least 1, drafts included
  std::int32_t num_rows = 0;    // 1 or more, drafts included
  std::int32_t num_drafts = 0;  // the last rows of the step; fewer than num_rows
  bool fresh = false;  // the sequence begins here: the state is zeros, and the content of `pieces` is ignored
  // The pieces of all stateful layers in order; a layer's own start at LayerStates::first_piece.
  float* const* pieces = nullptr;
  std::span<const StateStore> stores = {};  // in ascending order of num_rows
};

// One layer's view of the states.
struct LayerStates {
  std::span<const StateSequence> sequences = {};  // all sequences of the batch, in order
  std::int32_t first_piece = 0;
  std::int32_t num_pieces = 0;  // pieces of all layers together

  float* piece(const StateSequence& sequence, std::int32_t index) const {
    return sequence.pieces[first_piece + index];
  }
  float* piece(const StateStore& store, std::int32_t index) const {
    return store.pieces[first_piece + index];
  }
};

}  // namespace pagoda
