#pragma once
// Inputs of products in 8-bit floats (e4m3), and arguments of the kernels that write them (rows_float8.cuh).
// Rows of codes are in slabs, as those of bfloat16 in launch_shapes.h, where kFloat8Scale elements of k take
// kSlabRowBytes. After all slabs follow the scales in f32: one per row, or one per kFloat8Scale of k: those
// of all rows for the first kFloat8Scale, then for the next. x = scale * code. Codes of 32 neighbours are
// ordered by float8_byte(), as those of weights. The scale, with which the largest magnitude becomes 448, or
// which is fixed, is defined by LinearArithmetic (tensor/linear_arithmetic.h).
#include "device/kernels/launch_shapes.h"

namespace pagoda::device {

static_assert(kFloat8Scale == kSlabRowBytes);
// A row is padded with zeros to whole stages of any product.
PAGODA_HOST_DEVICE constexpr std::int32_t float8_width(std::int32_t k) {
  return (k + 2 * kFloat8Scale - 1) / (2 * kFloat8Scale) * (2 * kFloat8Scale);
}
// The byte offset of the code at `byte` of the kFloat8Scale that begins at i.
PAGODA_HOST_DEVICE constexpr std::int64_t float8_place(std::int64_t rows, std::int32_t row, std::int32_t i,
                                                       std::int32_t byte) {
  return (i / kFloat8Scale * rows + row) * kSlabRowBytes + 16 * (byte / 16 ^ row % 8) + byte % 16;
}
PAGODA_HOST_DEVICE constexpr std::int64_t float8_codes(std::int64_t rows, std::int32_t k) {
  return rows * float8_width(k);
}
PAGODA_HOST_DEVICE constexpr std::int64_t float8_bytes(std::int64_t rows, std::int32_t k, bool blocks) {
  return float8_codes(rows, k) + 4 * rows * (blocks ? float8_width(k) / kFloat8Scale : 1);
}

// Likewise for experts, whose products are in bfloat16, which holds codes exactly: rows of bfloat16, and
// after all of them the scales, with those of a row beside each other.
PAGODA_HOST_DEVICE constexpr std::int32_t float8_row_scales(std::int32_t k, bool blocks) {
  return blocks ? (k + kFloat8Scale - 1) / kFloat8Scale : 1;
}
PAGODA_HOST_DEVICE constexpr std::int64_t float8_wide_bytes(std::int64_t rows, std::int32_t k, bool blocks) {
  return rows * (2 * k + 4 * float8_row_scales(k, blocks));
}

// out = the rows of x, of their norm, or of a function of them.
struct QuantizeRowsArgs {
  const float* x = nullptr;     // [rows, width]; gated: [rows, 2 * width]
  std::uint8_t* out = nullptr;  // float8_bytes() at a multiple of 16, or float8_wide_bytes()
  std::int32_t rows = 0, width = 0;
  std::int32_t stride = 0;       // from a row of x to the next; 0: rows are contiguous
  std::int32_t blocks = 0;       // not 0: a scale per kFloat8Scale; else one per row
  std::int32_t wide = 0;         // codes in bfloat16 (float8_wide_bytes()), width a multiple of 4
  float scale = 0;               // not 0: the scale of all rows
  float largest = 0;             // not 0: larger magnitudes count as this one when a scale is computed
  InputNorm norm = {};           // quantize_norm
  OutputFunction function = {};  // quantize_function; as in ActivateArgs
};

// A product of such inputs by warpgroups (linear_float8.cuh). A block has `rows` rows of x, 64 per
// multiplying warpgroup, and `columns` rows of the weights, in stages of one kFloat8Scale of k, or of two if
// a block has few rows. The threads after the multiplying ones copy, as kBulkBringers do.
PAGODA_HOST_DEVICE constexpr std::int32_t float8_stage_bytes(const ProductTile& tile, bool blocks) {
  const std::int32_t scales = blocks ? (16 * tile.columns + 1023) / 1024 * 1024 : 0;
  return tile.depth / kFloat8Scale * (tile.rows + tile.columns) * kSlabRowBytes + scales;
}
PAGODA_HOST_DEVICE constexpr ProductTile float8_tile(std::int32_t columns, std::int32_t rows, bool blocks) {
  ProductTile tile = {rows, columns, rows > 64 ? kFloat8Scale : 2 * kFloat8Scale, rows / 16, 1, 0, 2};
  tile.stages = choices::bulk_kib * 1024 / float8_stage_bytes(tile, blocks);
  return tile;
}
constexpr std::uint32_t float8_shared_bytes(const ProductTile& tile, bool blocks) {
  return static_cast<std::uint32_t>(tile.stages * (float8_stage_bytes(tile, blocks) + 24));
}
PAGODA_HOST_DEVICE constexpr std::int32_t float8_threads(const ProductTile& tile) {
  return 2 * tile.rows + kBulkBringers;
}

}  // namespace pagoda::device
