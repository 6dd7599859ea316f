#pragma once
// PreparedRows: the rows that linear multiplies, in the form required by the kernel of their weights (Panels,
// linear_tile.h). Filled from a caller's floats, or by the product that computes them. Threads: different
// rows, and different groups of 64 inputs of a row, may be written concurrently.
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear.h"

namespace pagoda::cpu {

// The rows' scales, stored after the panels that begin at `data`.
inline float* row_scales(const Panels& panels, std::byte* data) {
  return reinterpret_cast<float*>(data + panels.count * panels.bytes);
}
inline const float* row_scales(const Panels& panels, const std::byte* data) {
  return reinterpret_cast<const float*>(data + panels.count * panels.bytes);
}

class PreparedRows {
 public:
  // For `num_rows` rows to be multiplied by `weight`; initially unfilled. Uses memory of `scratch`, valid
  // until its next use.
  PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight, std::int64_t num_rows,
               Scratch& scratch);
  // The same in the caller's memory: call lie_at() before anything else.
  PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight, std::int64_t num_rows);
  std::int64_t bytes() const;
  void lie_at(std::byte* data) { data_ = data; }

  const Panels& panels() const { return panels_; }
  const std::byte* data() const { return data_; }

  struct Place {
    std::byte* panel = nullptr;
    std::int64_t row = 0, height = 0;  // within the panel
    std::int64_t index = 0;            // index of the panel
  };
  Place place(std::int64_t row) const;
  // Moves to the next row. Modifies in place: a copy would be read before its parts have been stored (README,
  // Traps).
  void advance(Place& place) const;
  // Writes inputs [first, first + count) of a row; both are multiples of 64, except at the end of the row.
  // The whole row at once if the weight needs whole rows.
  void put(const Place& place, std::int64_t first, const float* from, std::int64_t count) const;

  // Fills all rows from `input`.
  void fill(const KernelContext& context, const LinearInput& input) const;

 private:
  // Stores in the form required by the weights' type. are_numbers: the values are already numbers of the
  // arithmetic.
  void store(const Place& place, std::int64_t first, const float* from, std::int64_t count,
             bool are_numbers) const;
  // The bytes of 64 8-bit inputs of all rows of a panel.
  std::int64_t group_bytes(std::int64_t height) const;

  const LinearKernels& kernels_;
  LinearType type_;
  LinearArithmetic arithmetic_;
  std::int64_t scale_inputs_;
  bool needs_whole_rows_;
  bool are_integers_;  // for PackedFormat::i8
  std::int64_t k_;
  Panels panels_;
  std::byte* data_ = nullptr;
};

// The left factor of a product, from a caller's floats. Many rows are prepared once for all threads. For few
// rows, each thread prepares its own copy with its first tile, which is faster than distributing the work,
// waiting for it, and reading the rows from another core's cache.
class InputRows {
 public:
  InputRows(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, Scratch& scratch);

  const Panels& panels() const { return shared_.panels(); }
  // Belongs to the calling thread until its next product.
  const std::byte* data() const;

 private:
  const KernelContext& context_;
  const PackedLinear::Storage& weight_;
  const LinearInput& input_;
  PreparedRows shared_;
  std::uint64_t product_ = 0;  // the product whose rows each thread prepares for itself; 0: rows are shared
};

}  // namespace pagoda::cpu
