#pragma once
// Arguments of the kernels of low-rank adapters (low_rank.cuh): y += scale * B (A x) for the rows of a
// product that have an adapter, with factors in float or bfloat16, stored as in kernels/low_rank.h. All sums
// are in float.
#include "device/kernels/layer_args.h"

namespace pagoda::device {

// B for some outputs of a matrix, in strips of 16 outputs, [rank][16] each.
struct LowRankPiece {
  const std::byte* left = nullptr;
  std::int32_t first_output = 0, outputs = 0;
  std::int32_t first_rank = 0, rank = 0;
  float scale = 1;
};
// The factors of one adapter for one matrix; rank 0 if the adapter does not change the matrix.
struct LowRankFactors {
  const std::byte* right = nullptr;  // A: [rank][width]
  const LowRankPiece* pieces = nullptr;
  std::int32_t rank = 0, width = 0, num_pieces = 0, bfloat16 = 0;
};
// A row that has an adapter, with the factors of that adapter, indexed by the slot of the matrix.
struct LowRankRow {
  const LowRankFactors* factors = nullptr;
  std::int64_t row = 0;
};

// A x of the n-th of `rows`: indexed by rank, at u + n * most_ranks.
struct LowRankArgs {
  const LowRankRow* rows = nullptr;
  StridedRows x = {}, y = {};
  float* u = nullptr;
  std::int32_t slot = 0, k = 0, outputs = 0, most_ranks = 0;
};

}  // namespace pagoda::device
