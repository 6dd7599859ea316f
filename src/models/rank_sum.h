#pragma once
// RankSum: sums of row-parallel layers over the pieces of their columns and over the ranks, always in one
// order where sums are deterministic. Not here: which rank has which columns (tensor_shard.h). Threads: one
// caller. Owner: the decoder, with the room for what a rank brings.
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "distributed/parallel_context.h"
#include "kernels/linear.h"

namespace pagoda {

// A matrix cut by columns: y = sum over pieces and ranks. The bias is in the first piece of rank 0.
using RowParallelLinear = std::vector<PackedLinear>;

class RankSum {
 public:
  RankSum() = default;
  // `partial` has room for the pieces of a chunk; not needed where nothing is split.
  RankSum(const ParallelContext& parallel, bool split, float* partial)
      : parallel_(parallel), split_(split), partial_(partial) {}

  bool split() const { return split_; }
  // Room for the pieces of a chunk, where something is split: to be filled, and then summed.
  float* room() const { return partial_; }

  // data: parts[rank] vectors of `length` here; their sum over all ranks comes first in it.
  Status sum(std::span<float> data, std::int64_t length, std::span<const std::int32_t> parts) const;

  // y += the sum of input W^T over all pieces and ranks; the input has this rank's columns.
  Status add_product(const KernelContext& context, const RowParallelLinear& weight,
                     std::span<const std::int32_t> parts, LinearInput input, std::int64_t count,
                     float* y) const;

 private:
  ParallelContext parallel_;
  bool split_ = false;
  float* partial_ = nullptr;  // [pieces, chunk, hidden]
};

}  // namespace pagoda
