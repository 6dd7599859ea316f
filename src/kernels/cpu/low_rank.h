#pragma once
// RowAddends: what adapters add to one product on the CPU: A x of the rows that have one is made before the
// product, and each tile of products gets B (A x) of its rows and columns while it is in the cache. An output
// is summed in its own lane, ascending over the rank, wherever tiles begin.
// Threads: one makes it; tiles may be added to at the same time.
#include <cstdint>
#include <span>

#include "kernels/linear.h"
#include "kernels/linear_storage.h"
#include "kernels/low_rank.h"

namespace pagoda::cpu {

// The loops of one instruction set. Plain pointers only, as in linear_tile.h.
struct LowRankDots {
  const std::byte* rows = nullptr;  // A's, one behind the other
  bool bfloat16 = false;
  std::int64_t width = 0;  // a row's, in whole sixteens
  std::int32_t count = 0;
  const float* const* x = nullptr;  // rows, each `width` floats
  std::int64_t num_x = 0;
  float* const* u = nullptr;  // each x's `count` results
};
struct LowRankSum {
  const std::byte* strips = nullptr;  // [rank][16] each
  bool bfloat16 = false;
  std::int32_t rank = 0;
  float scale = 1;
  std::int64_t num_strips = 0;
  std::int64_t num_rows = 0;
  const float* const* u = nullptr;  // by row
  float* const* y = nullptr;        // by row: 16 outputs
  std::int64_t y_step = 0;          // floats to the next strip's
};
constexpr std::int64_t kLowRankRows = 4;  // at most, in one call of either
struct LowRankKernels {
  void (*dots)(const LowRankDots& args);
  void (*add)(const LowRankSum& args);

  static const LowRankKernels portable, avx2, avx512;
};

// The place of the products of some rows and columns of a run of the weight's.
struct AddendTile {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t column = 0, end = 0;  // from a multiple of 16 of the run on
  float* y = nullptr;
  std::int64_t y_stride = 0;
};

class RowAddends {
 public:
  // In room of the calling thread's, until its next product.
  RowAddends(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
             std::int64_t num_rows);

  const RowAddends* or_null() const { return rows_.empty() ? nullptr : this; }
  void add_to(const LinearSegment& run, const AddendTile& tile) const;

 private:
  struct Row {
    std::int64_t row = 0;
    const LowRank* factors = nullptr;
    const float* x = nullptr;
    float* u = nullptr;
  };
  void find_rows(const LinearInput& input, std::int64_t num_rows, std::vector<Row>& rows);
  void take_inputs(const KernelContext& context, const LinearInput& input, std::span<Row> rows);
  void make_dots(const KernelContext& context) const;
  void add_factors(std::span<const Row> rows, const LinearSegment& run, const AddendTile& tile) const;
  void add_piece(std::span<const Row> rows, const LowRank::Piece& piece, std::int64_t begin, std::int64_t end,
                 const AddendTile& tile, std::int64_t column, std::int64_t y_step) const;

  const PackedLinear::Storage& weight_;
  const LowRankKernels& kernels_;
  std::span<const Row> rows_;  // ascending
};

}  // namespace pagoda::cpu
