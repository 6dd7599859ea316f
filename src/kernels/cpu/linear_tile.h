#pragma once
// The contract between linear's dispatch (baseline code: tiles, threads, activations) and its inner
// loops (one file per instruction set). Plain pointers only.
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/linear_storage.h"

namespace pagoda::cpu {

constexpr std::int64_t kStrip = 16;  // output features side by side in the packed form

// Rows are cut into panels of nearly equal height, at most the register tile's. In the activations'
// buffers, each panel of R rows is interleaved so that a kernel walks one pointer:
//     f32 [K][R]    bf16 [K/2][R][2]
//     groups: q [K/32][R][32], scale [K/32][R], term [K/32][R][parts], group_sums [K/64][R][2]
//     q8_row: q [K/64][R][64], scale [K/64][R], term [K/64][R]
// A panel that begins at row r begins at r rows' worth of elements in each buffer.
struct Panels {
  std::int64_t num_rows = 0, count = 0;
  std::int64_t begin(std::int64_t panel) const { return num_rows * panel / count; }
};

// One tile: some panels of x times num_strips consecutive strips of weights.
struct LinearTile {
  const std::byte* weights = nullptr;
  std::int64_t strip_bytes = 0;
  std::int64_t k = 0;
  std::int64_t num_strips = 0;
  std::int64_t last_columns = kStrip;       // columns of the last strip that exist
  const std::byte* next_weights = nullptr;  // what this thread will most likely read next, or null

  Panels panels;
  std::int64_t first_panel = 0, last_panel = 0;
  const std::byte* x = nullptr;  // of row 0: floats, bf16 (or floats rounded to it), or int8
  std::int64_t x_row_bytes = 0;
  // Groups only. scale: one per 32 inputs. term: -zero * sum(q) per 32 inputs (q8_half: per 16).
  const float* scale = nullptr;
  const std::int32_t* term = nullptr;
  // Formats with a minimum: scale * sum(q), in pairs of groups as the bf16 kernel takes its inputs.
  const std::byte* group_sums = nullptr;

  float* y = nullptr;  // of row 0 and the tile's first column
  std::int64_t y_stride = 0;
  const float* bias = nullptr;  // of the first column, or null
  bool accumulate = false;
};

using LinearTileFunction = void (*)(const LinearTile& tile);

// Where one row's activations go: element i of step s (a group, a pair, an input) lands s * step further.
struct QuantizedRow {
  std::int64_t group;  // inputs: 32 or 64
  std::int8_t* q;      // of a group: that many bytes, q_step bytes from group to group
  std::int64_t q_step;
  float* scale;  // scale_step from group to group
  std::int64_t scale_step;
  std::int32_t* half_sums;  // sums of q over each 16 inputs, contiguous
};

struct LinearKernels {
  LinearTileFunction f32, bf16, q4, q4_min, q8, q8_min, q8_half, q8_row;
  std::int64_t f32_rows, bf16_rows, grouped_rows;  // of a full panel
  void (*quantize_row)(const float* x, std::int64_t k, const QuantizedRow& out);
  // x rounded to bf16, as the bf16 kernel of this level wants it: pairs `pair_step` bytes apart; an odd k is
  // padded with zero.
  void (*round_row)(const float* x, std::int64_t k, std::byte* out, std::int64_t pair_step);
  std::int64_t bf16_bytes;  // of one element that round_row writes
  // One row of weights: the largest absolute value, and round(x * inverse) + 128, half to even; reads and
  // writes up to the next multiple of 16.
  float (*largest)(const float* x, std::int64_t k);
  void (*row_weights)(const float* x, std::int64_t k, float inverse, std::uint8_t* out);
  // Rows of plain weights, for packing; written up to the next multiple of 16.
  void (*half_to_floats)(const void* x, std::int64_t n, float* out);  // reads up to that multiple too
  void (*floats_to_bf16)(const float* x, std::int64_t n, std::uint16_t* out);
};

const LinearKernels& linear_kernels_avx512();
const LinearKernels& linear_kernels_avx2();
const LinearKernels& linear_kernels_portable();
const LinearKernels& linear_kernels(CpuLevel level);

// Bytes of 64 inputs (f32: of 1, bf16: of 2) x 16 outputs in the packed form.
constexpr std::int64_t packed_block_bytes(PackedFormat format) {
  switch (format) {
    case PackedFormat::plain:
      return 0;
    case PackedFormat::f32:
      return 64;
    case PackedFormat::bf16:
      return 64;
    case PackedFormat::q4:
      return 64 + 512;
    case PackedFormat::q4_min:
      return 128 + 512;
    case PackedFormat::q8:
      return 64 + 1024;
    case PackedFormat::q8_min:
      return 128 + 1024;
    case PackedFormat::q8_half:
      return 128 + 1024;
    case PackedFormat::q8_row:
      return 1024;
  }
  return 0;
}

// Bytes before a strip's first block.
constexpr std::int64_t strip_header_bytes(PackedFormat format) {
  return format == PackedFormat::q8_row ? 64 : 0;
}

}  // namespace pagoda::cpu
