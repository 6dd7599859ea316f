#pragma once
// RankExchange: ends the sublayers of a layer on several ranks, of which each has some heads, features or
// experts (tensor_shard.h). Two ways (ExchangeKind):
//   * gather: every rank gets all parts and multiplies them by its rows of the last matrix; the results are
//     gathered again. Every element is reduced as in one process: the same bits, on any number of ranks.
//   * sum: each rank multiplies its own part by its columns; the products are summed over the ranks
//     (Megatron-LM, arXiv 1909.08053 §3). Less to send, other last bits.
// On the CPU the ranks' communicator carries the parts. On devices kernels do, through windows of memory
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

// So many floats in whole pieces of 256 bytes, as a device's library wants them: parts of one room begin at
// their own.
inline std::int64_t padded(std::int64_t floats) { return (floats + 63) / 64 * 64; }

class RankExchange final : public ExpertExchange {
 public:
  // Floats of room for chunks of `rows` rows, `width` the widest input of a last product, `whole` the widest
  // of whole_rows(); none for one rank.
  static std::int64_t workspace_for(const TensorShard& shard, std::int64_t rows, std::int64_t width,
                                    std::int64_t whole, std::int64_t hidden);

  RankExchange() = default;
  RankExchange(const ParallelContext& parallel, const TensorShard& shard, const Buffer& room);

  bool split() const { return split_; }
  bool gathers() const override { return gathers_; }

  // y = (accumulate: y +) weight of the whole input, whose columns `columns` each rank has in `input`,
  // [count, own columns]. Adapters of rows are a single rank's.
  Status last_product(const KernelContext& context, const PackedLinear& weight,
                      std::span<const Range> columns, const Buffer& input, RowAdapters adapters,
                      std::int64_t count, bool accumulate, const Buffer& y);
  // Whole rows, of which each rank has the columns `columns` in `own`: for what needs all of them at once. On
  // one rank `own` itself; on several a copy on each, until the next call, or with `second`, beside the last
  // one of as many columns. A lost rank is told by the next last_product().
  Buffer whole_rows(const KernelContext& context, std::span<const Range> columns, const Buffer& own,
                    std::int64_t count, bool second = false);
  // This rank's columns of what whole_rows() gave, back into `own`.
  void keep_own(const KernelContext& context, Range columns, const Buffer& whole, std::int64_t count,
                const Buffer& own) const;
  // The first `count` floats of `data` = their sum over all ranks.
  Status sum(std::int64_t count, const Buffer& data) const override;
  // The same of rows, one directly behind the other.
  Status sum_rows(const KernelContext& context, RowShape shape, const Buffer& rows) const;
  // `all` holds sizes[r] floats of each rank r, one after the other, and this rank's are in their place:
  // afterwards all are.
  Status gather(std::span<const std::size_t> sizes, const Buffer& all) const override;
  // Rank 0 gets whole rows in `all`, of which each rank has those of `columns` in `own`. `between`: room for
  // as many floats.
  Status bring_to_first(const KernelContext& context, std::span<const Range> columns, std::int64_t count,
                        const Buffer& own, const Buffer& between, const Buffer& all) const;

 private:
  Status gather_parts(const KernelContext& context, std::span<const Range> ranges, const Buffer& own,
                      std::int64_t count, const Buffer& all);

  ParallelContext parallel_;
  bool split_ = false, gathers_ = false;
  std::vector<Range> hidden_;  // rows of the last matrices, of each rank
  Buffer workspace_;
  std::vector<std::size_t> sizes_;
  Status lost_;  // the first failure of whole_rows()
};

}  // namespace pagoda
