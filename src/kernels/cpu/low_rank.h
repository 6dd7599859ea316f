#pragma once
// RowAddends: the contribution of adapters to one product on the CPU. A x is computed, for the rows that have
// an adapter, before the product; each tile of the product then adds B (A x) for its rows and columns while
// they are in the cache. Every output is summed in its own lane, in ascending order over the rank, wherever
// tiles begin. Threads: created by one thread; tiles may be added to concurrently.
#include <cstdint>
#include <span>

#include "kernels/linear.h"
#include "kernels/linear_storage.h"
#include "kernels/low_rank.h"

namespace pagoda::cpu {

// The inner loops of one instruction set. Plain pointers only, as in linear_tile.h.
struct LowRankDots {
  const std::byte* rows = nullptr;  // rows of A, contiguous
  bool bfloat16 = false;
  std::int64_t width = 0;  // floats per row, a multiple of 16
  std::int32_t count = 0;
  const float* const* x = nullptr;  // rows of `width` floats
  std::int64_t num_x = 0;
  float* const* u = nullptr;  // `count` results per x
};
struct LowRankSum {
  const std::byte* strips = nullptr;  // strips of [rank][16]
  bool bfloat16 = false;
  std::int32_t rank = 0;
  float scale = 1;
  std::int64_t num_strips = 0;
  std::int64_t num_rows = 0;
  const float* const* u = nullptr;  // by row
  float* const* y = nullptr;        // per row: 16 outputs
  std::int64_t y_step = 0;          // floats between strips
};
constexpr std::int64_t kLowRankRows = 4;  // maximum in one call of either function
struct LowRankKernels {
  void (*dots)(const LowRankDots& args);
  void (*add)(const LowRankSum& args);

  static const LowRankKernels portable, avx2, avx512;
};

// The location of the products of some rows and columns of a run of the weight.
struct AddendTile {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t column = 0, end = 0;  // within the run; column is a multiple of 16
  float* y = nullptr;
  std::int64_t y_stride = 0;
};

class RowAddends {
 public:
  // Uses memory of the calling thread, valid until its next product.
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
  std::span<const Row> rows_;  // in ascending order
};

}  // namespace pagoda::cpu
