#pragma once
// The contract between linear's dispatch (baseline code: tiles, threads, activations) and its inner
// loops (one file per instruction set). Plain pointers only.
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/linear_storage.h"

namespace pagoda::cpu {

constexpr std::int64_t kStrip = 16;  // output features side by side in the packed form

// One tile: num_rows rows of x times num_strips consecutive strips of weights.
struct LinearTile {
  const std::byte* weights = nullptr;
  std::int64_t strip_bytes = 0;
  std::int64_t k = 0;
  std::int64_t num_strips = 0;
  std::int64_t last_columns = kStrip;  // columns of the last strip that exist

  // f32: floats. bf16: bf16 with K rounded up to even (avx512), else floats already rounded to bf16.
  // q4 .. q8_half: int8.
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // in elements of x
  // Groups only. scale: one float per 32 inputs. term: per 32 inputs (q8_half: per 16), either the int32
  // -zero * sum(q), or for formats with a minimum the float scale * sum(q).
  const float* scale = nullptr;
  const std::int32_t* term = nullptr;
  std::int64_t scale_stride = 0, term_stride = 0;

  std::int64_t num_rows = 0;
  float* y = nullptr;
  std::int64_t y_stride = 0;
  const float* bias = nullptr;  // of the first column, or null
  bool accumulate = false;
};

using LinearTileFunction = void (*)(const LinearTile& tile);

// 8-bit activations of one row: q [k rounded up to 32], scale [groups], sums of q over each 16 inputs.
struct QuantizedRow {
  std::int8_t* q;
  float* scale;
  std::int32_t* half_sums;
};

struct LinearKernels {
  LinearTileFunction f32, bf16, q4, q4_min, q8, q8_min, q8_half;
  void (*quantize_row)(const float* x, std::int64_t k, const QuantizedRow& out);
  // x rounded to bf16, as the bf16 kernel of this level wants it; k is padded to even with zero.
  void (*round_row)(const float* x, std::int64_t k, void* out);
  std::int64_t bf16_bytes;  // of one element that round_row writes
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
  }
  return 0;
}

}  // namespace pagoda::cpu
