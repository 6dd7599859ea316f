#pragma once
// The contents of a PackedLinear, visible only to kernels/. Layouts: cpu/README.md.
#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "kernels/device/device_part.h"
#include "kernels/linear.h"
#include "kernels/weight_format.h"
#include "tensor/memory.h"

namespace pagoda {

// One of the matrices given to pack().
struct PackedPart {
  PackedFormat format = PackedFormat::plain;
  std::int64_t rows = 0;
};

// Consecutive output features of one format, from one of the matrices given to pack().
struct LinearSegment {
  PackedFormat format = PackedFormat::plain;
  std::int64_t n_begin = 0;      // first output feature
  std::int64_t n = 0;            // output features; the last strip of 16 is padded with zeros
  std::int64_t strip_bytes = 0;  // bytes of 16 output features (plain: of one)
  std::int64_t strip_step = 0;   // distance between strips, in bytes
  std::int64_t offset = 0;       // byte offset of the first strip in `packed`
};

struct PackedLinear::Storage {
  Backend backend = Backend::reference;
  LinearType type = LinearType::float32;
  LinearForm form = LinearForm::stacked;
  LinearArithmetic arithmetic = {};
  std::int64_t n = 0, k = 0;
  std::vector<PackedPart> parts;        // the matrices given to pack()
  std::vector<LinearSegment> segments;  // one per matrix
  // Ranges that are computed together: adjacent segments of one format, joined. gated: interleaved strips of
  // gate and up.
  std::vector<LinearSegment> runs;
  std::int64_t num_rows() const { return form == LinearForm::gated ? 2 * n : n; }  // rows of all matrices
  // True if any matrix has a K type. Rows in 8 bits then have one scale per 256 inputs, otherwise per 32.
  bool has_blocks = false;
  std::int64_t scale_inputs() const { return has_blocks ? kSuperBlockInputs : 32; }
  // True if no part of a row can be prepared before the whole row is known.
  bool needs_whole_rows() const { return has_blocks || arithmetic.needs_whole_rows(); }
  bool keeps_values = false;  // PackedLinear::keeps_values()
  std::vector<float> bias;    // empty or num_rows() entries; gated on the CPU: in the order of the strips
  const std::byte* packed = nullptr;  // points into `own` or `mapped`
  Memory own;
  std::shared_ptr<const void> mapped;
  std::int64_t packed_bytes = 0;
  std::vector<DevicePart> device;  // Backend::device: replaces all of the above
  std::int32_t adapter_slot = -1;
  const Storage* next = nullptr;  // the matrix that will probably be multiplied next, or null
};

// Computes segments and runs from form, n, k and parts; returns the number of bytes they need.
std::int64_t plan_panels(PackedLinear::Storage& storage);

// The panels that 8-bit products use for a stored type. Point panels need 64-byte table lookups; where each
// lookup is a separate load, 4-bit numbers are faster.
inline PackedFormat int8_panels(DType stored, CpuLevel level) {
  const WeightFormat& format = weight_format(stored);
  const bool points = level == CpuLevel::avx512 && format.point_panels != PackedFormat::plain;
  return points ? format.point_panels : format.int8_panels;
}

// The panels that int8 or bfloat16 products use for `view`, one of `weights`. Gate and up must share one
// format: if their own formats differ, one that can hold any type is chosen.
inline PackedFormat chosen_panels(CpuLevel level, LinearType type, LinearForm form,
                                  std::span<const TensorView> weights, const TensorView& view) {
  const auto panels_of = [&](DType stored) {
    return type == LinearType::int8 ? int8_panels(stored, level) : weight_format(stored).bf16_panels;
  };
  const PackedFormat own = panels_of(view.dtype);
  if (form == LinearForm::stacked) return own;
  const bool same = std::all_of(weights.begin(), weights.end(),
                                [&](const TensorView& other) { return panels_of(other.dtype) == own; });
  if (same) return own;
  return type == LinearType::int8 ? PackedFormat::q8m : PackedFormat::bf16;
}

// The value of PackedLinear::Storage::has_blocks for these weights.
inline bool have_blocks(CpuLevel level, LinearType type, LinearForm form,
                        std::span<const TensorView> weights) {
  return type == LinearType::int8 && std::ranges::any_of(weights, [&](const TensorView& view) {
           return keeps_file_numbers(chosen_panels(level, type, form, weights, view));
         });
}

}  // namespace pagoda
