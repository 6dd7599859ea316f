#pragma once
// RankExchange: completes the sublayers of a layer on several ranks, each with some heads, features or
// experts (tensor_shard.h). Two ways (ExchangeKind):
//   * gather: every rank gets all parts and multiplies them by its rows of the last matrix; the results are
//     gathered again. Every element is reduced as in one process: the same bits on any number of ranks.
//   * sum: each rank multiplies its own part by its columns, and the products are summed over the ranks
//     (Megatron-LM, arXiv 1909.08053 §3). Less data to send, different last bits.
// On the CPU the communicator carries the parts. On devices kernels do, through windows of memory
// (kernels/device/ops.h): the host does not wait within a step, and a lost rank is reported at its end.
// Threads: one caller; all ranks make the same calls. Owner: the decoder, with the workspace.
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "distributed/parallel_context.h"
#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "kernels/mixture.h"
#include "kernels/rows.h"
#include "models/weights/tensor_shard.h"

namespace pagoda {

// Rounds up to whole pieces of 256 bytes, which a device's library requires where parts of one buffer begin.
inline std::int64_t padded(std::int64_t floats) { return (floats + 63) / 64 * 64; }

class RankExchange final : public ExpertExchange {
 public:
  // Floats of workspace for chunks of `rows` rows. `width`: the widest input of a last product; `whole`: the
  // widest row of whole_rows(). 0 for a single rank.
  static std::int64_t workspace_for(const TensorShard& shard, std::int64_t rows, std::int64_t width,
                                    std::int64_t whole, std::int64_t hidden);

  RankExchange() = default;
  RankExchange(const ParallelContext& parallel, const TensorShard& shard, const Buffer& room);

  bool split() const { return split_; }
  bool gathers() const override { return gathers_; }

  // y = (accumulate: y +) weight of the whole input. Rank r has columns[r] of the input in `input`, [count,
  // own columns]. Adapters only work on a single rank.
  Status last_product(const KernelContext& context, const PackedLinear& weight,
                      std::span<const Range> columns, const Buffer& input, RowAdapters adapters,
                      std::int64_t count, bool accumulate, const Buffer& y);
  // Returns whole rows from `own`, in which each rank has its columns, for operations that need whole rows.
  // On a single rank this is `own` itself. With several, each rank gets a copy, valid until the next call;
  // with `second`, it coexists with the previous result of the same width. The next last_product() reports a
  // lost rank.
  Buffer whole_rows(const KernelContext& context, std::span<const Range> columns, const Buffer& own,
                    std::int64_t count, bool second = false);
  // Copies this rank's columns of the result of whole_rows() back into `own`.
  void keep_own(const KernelContext& context, Range columns, const Buffer& whole, std::int64_t count,
                const Buffer& own) const;
  // Replaces the first `count` floats of `data` by their sum over all ranks.
  Status sum(std::int64_t count, const Buffer& data) const override;
  // The same for contiguous rows.
  Status sum_rows(const KernelContext& context, RowShape shape, const Buffer& rows) const;
  // `all` has sizes[r] floats for each rank r in order, with this rank's part filled in; afterwards all parts
  // are.
  Status gather(std::span<const std::size_t> sizes, const Buffer& all) const override;
  // Gathers whole rows into `all` on rank 0; each rank has its columns in `own`. `between`: scratch of the
  // same size.
  Status bring_to_first(const KernelContext& context, std::span<const Range> columns, std::int64_t count,
                        const Buffer& own, const Buffer& between, const Buffer& all) const;

 private:
  Status gather_parts(const KernelContext& context, std::span<const Range> ranges, const Buffer& own,
                      std::int64_t count, const Buffer& all);

  ParallelContext parallel_;
  bool split_ = false, gathers_ = false;
  std::vector<Range> hidden_;  // each rank's rows of the last matrices
  Buffer workspace_;
  std::vector<std::size_t> sizes_;
  Status lost_;  // the first failure of whole_rows()
};

}  // namespace pagoda
