#pragma once
// PreparedRows: the rows that linear multiplies, in the form in which the kernel of their weights takes them
// (Panels, linear_tile.h). Filled from a caller's floats, or by the product whose results they are.
// Threads: different rows, and different groups of 64 inputs of a row, may be put at the same time.
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear.h"

namespace pagoda::cpu {

class PreparedRows {
 public:
  // For `num_rows` rows that `weight` multiplies; not filled yet. In `scratch`, until its next use.
  PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight, std::int64_t num_rows,
               Scratch& scratch);
  // The same, where the caller says: lie_at() comes before all else.
  PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight, std::int64_t num_rows);
  std::int64_t bytes() const { return panels_.count * panels_.bytes; }
  void lie_at(std::byte* data) { data_ = data; }

  const Panels& panels() const { return panels_; }
  const std::byte* data() const { return data_; }

  struct Place {
    std::byte* panel = nullptr;
    std::int64_t row = 0, height = 0;  // in the panel
    std::int64_t index = 0;            // the panel's
  };
  Place place(std::int64_t row) const;
  // To the next row. In place: a copy is read before its parts have been written (README, Trap).
  void advance(Place& place) const;
  // Inputs [first, first + count) of a row; both are multiples of 64, but for the end of the row.
  void put(const Place& place, std::int64_t first, const float* from, std::int64_t count) const;

  // All of them, of `input`.
  void fill(const KernelContext& context, const LinearInput& input) const;

 private:
  const LinearKernels& kernels_;
  LinearType type_;
  std::int64_t k_;
  Panels panels_;
  std::byte* data_ = nullptr;
};

// The left factor of a product of a caller's floats. Many rows are prepared once for all threads. A few each
// thread prepares for itself with its first tile: that is sooner than to hand them out, wait for them, and
// read them from another core's cache.
class InputRows {
 public:
  InputRows(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, Scratch& scratch);

  const Panels& panels() const { return shared_.panels(); }
  // In the calling thread's hands until its next product.
  const std::byte* data() const;

 private:
  const KernelContext& context_;
  const PackedLinear::Storage& weight_;
  const LinearInput& input_;
  PreparedRows shared_;
  std::uint64_t product_ = 0;  // whose rows each thread prepares for itself; 0: they are shared
};

}  // namespace pagoda::cpu
