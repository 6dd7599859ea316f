#pragma once
// PreparedRows: the rows that linear multiplies, in the form in which the kernel of their weights takes them
// (Panels, linear_tile.h). Filled from a caller's floats, or by the product whose results they are.
// Threads: different rows, and different groups of 64 inputs of a row, may be put at the same time.
#include "kernels/cpu/linear_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/linear.h"

namespace pagoda::cpu {

// The rows' scales, behind the panels that begin at `data`.
inline float* row_scales(const Panels& panels, std::byte* data) {
  return reinterpret_cast<float*>(data + panels.count * panels.bytes);
}
inline const float* row_scales(const Panels& panels, const std::byte* data) {
  return reinterpret_cast<const float*>(data + panels.count * panels.bytes);
}

class PreparedRows {
 public:
  // For `num_rows` rows that `weight` multiplies; not filled yet. In `scratch`, until its next use.
  PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight, std::int64_t num_rows,
               Scratch& scratch);
  // The same, where the caller says: lie_at() comes before all else.
  PreparedRows(const KernelContext& context, const PackedLinear::Storage& weight, std::int64_t num_rows);
  std::int64_t bytes() const;
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
  // Inputs [first, first + count) of a row; both are multiples of 64, but for the end of the row. All of it
  // at once where the weight needs whole rows.
  void put(const Place& place, std::int64_t first, const float* from, std::int64_t count) const;

  // All of them, of `input`.
  void fill(const KernelContext& context, const LinearInput& input) const;

 private:
  // As the type of the weights asks; are_numbers: in the numbers of the arithmetic already.
  void store(const Place& place, std::int64_t first, const float* from, std::int64_t count,
             bool are_numbers) const;
  // 64 inputs in 8 bits of a panel's rows.
  std::int64_t group_bytes(std::int64_t height) const;

  const LinearKernels& kernels_;
  LinearType type_;
  LinearArithmetic arithmetic_;
  std::int64_t scale_inputs_;
  bool needs_whole_rows_;
  bool are_integers_;  // PackedFormat::i8's
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
