#pragma once
// LargestOfRows: the largest element of each of some rows that arrive in pieces and are not stored. Threads:
// each thread reports its own pieces; call largest() when all are done.
#include <limits>
#include <memory>
#include <span>

#include "kernels/cpu/level.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/logits.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {

class LargestOfRows {
 public:
  // For `num_rows` rows. Uses memory of `scratch`, valid until its next use.
  LargestOfRows(const KernelContext& context, std::int64_t num_rows, Scratch& scratch)
      : context_(context), stride_(round_up(num_rows, 16)) {
    const auto count = static_cast<std::size_t>(num_threads(context) * stride_);
    seen_ = {reinterpret_cast<LogitMax*>(scratch.take(count * sizeof(LogitMax))), count};
    std::uninitialized_fill(seen_.begin(), seen_.end(), kNothing);
  }

  // Reports elements [column, column + width) of rows [row, row + count); in any order, each element once.
  void note(int thread, std::int64_t row, std::int64_t count, std::int64_t column, std::int64_t width,
            const float* values, std::int64_t stride) {
    const auto max = kernels_of<RowKernels>(context_.level).max;
    LogitMax* seen = &seen_[static_cast<std::size_t>(thread * stride_ + row)];
    for (std::int64_t i = 0; i < count; ++i, ++seen, values += stride) {
      if (!better({static_cast<std::int32_t>(column), max(values, width)}, *seen)) continue;
      *seen = max_logit(context_, std::span(values, static_cast<std::size_t>(width)));
      seen->index += static_cast<std::int32_t>(column);
    }
  }

  LogitMax largest(std::int64_t row) const {
    LogitMax best = kNothing;
    for (auto at = static_cast<std::size_t>(row); at < seen_.size();
         at += static_cast<std::size_t>(stride_)) {
      if (better(seen_[at], best)) best = seen_[at];
    }
    return best;
  }

 private:
  static constexpr LogitMax kNothing = {0, -std::numeric_limits<float>::infinity()};

  KernelContext context_;
  std::int64_t stride_;
  std::span<LogitMax> seen_;  // [threads, stride]
};

}  // namespace pagoda::cpu
