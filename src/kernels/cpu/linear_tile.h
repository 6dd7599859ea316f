#pragma once
// The contract between linear's dispatch (baseline code: tiles, threads, activations) and its inner
// loops (one file per instruction set). Plain pointers only.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kernels/backend.h"
#include "kernels/linear_storage.h"
#include "tensor/small_floats.h"

namespace pagoda::cpu {

constexpr std::int64_t kStrip = 16;       // output features side by side in the packed form
constexpr std::int64_t kStreamRows = 16;  // so few wait for memory more than they multiply
constexpr std::int64_t kFetchRows = 4;    // fewer only wait for memory, and bring nothing for others
constexpr std::int64_t kOwnRows = 48;     // for each thread: from here on each has its own rows

constexpr std::int64_t kNextStrips = -1;  // as far ahead as the strips are long that are computed at once

// Rows are cut into panels of nearly equal height, at most the register tile's. Each panel of R rows is
// interleaved so that a kernel walks one pointer:
//     f32 [K][R]    bf16 [K/32][R][32]    8 bits [K/64] groups: q [R][64], scale, term, sum, early term,
//     late term [2][R], pair, peaks [R]        integers (PackedFormat::i8) [K/64][R][64]
// Groups of 8 bits are whole lines of memory, since different threads may fill them. q is as wide as the
// kernels multiply it; of the rest up to the pair, each half of a group's inputs has its own. Peaks stand in
// the first group of each 256 inputs.
struct Panels {
  std::int64_t num_rows = 0, count = 0;
  std::int64_t bytes = 0;   // from one panel to the next
  bool two_strips = false;  // are multiplied at once, else one, which memory likes as one long stream
  std::int64_t begin(std::int64_t panel) const { return num_rows * panel / count; }
};
constexpr std::int64_t int8_group_bytes(std::int64_t height, std::int64_t input_bytes) {
  return height * 64 * input_bytes + (height * 48 + 63) / 64 * 64;
}

// One tile: some panels of x times num_strips consecutive strips of weights.
struct LinearTile {
  const std::byte* weights = nullptr;
  std::int64_t strip_bytes = 0;
  std::int64_t k = 0;
  std::int64_t num_strips = 0;
  std::int64_t last_columns = kStrip;       // columns of the last strip that exist
  const std::byte* next_weights = nullptr;  // this thread's next weights, most likely, or null
  std::int64_t bytes_ahead = kNextStrips;   // how far ahead of a strip its weights are fetched; 0: not at all

  Panels panels;
  std::int64_t first_panel = 0, last_panel = 0;
  const std::byte* x = nullptr;  // the first of all panels: floats, bf16 (or floats rounded to it), or int8
  // Narrow weights of several panels become wide ones, widened_inputs() at a time: room for so many of
  // kMaxStrips strips, and for sums of all rows of the tile and these strips. Kernels that widen whole strips
  // have room for these, whatever the rows. Where the kernels have panel_sum_bytes, so many for each panel
  // and at least for two.
  std::byte* scratch = nullptr;
  float* sums = nullptr;
  // The largest magnitude of a number that was widened, zero point taken off.
  std::int32_t largest_number = 0;

  // Bytes [later_begin, later_end) of these pieces, one after the other, come into the cache meanwhile.
  const std::byte* const* later = nullptr;
  std::int64_t later_piece_bytes = 0, later_begin = 0, later_end = 0;

  float* y = nullptr;  // the tile's first row and column
  std::int64_t first_row = 0;
  std::int64_t y_stride = 0;
  const float* row_scales = nullptr;  // each row's factor of its products, or null
  const float* bias = nullptr;        // the first column's, or null
  bool accumulate = false;
  // The part of the inputs: `k` of them from `first_input` on of x, while the weights are those of the part.
  std::int64_t first_input = 0;
  bool is_first_part = true, is_last_part = true;
  bool past_caches = false;  // whole lines of y go straight to memory; y and its rows are aligned to lines
};

using LinearTileFunction = void (*)(const LinearTile& tile);

// The place of one row's activations: each group (64 inputs) lies `step` bytes behind the one before, the
// second half of a group `half` numbers behind the first.
struct QuantizedRow {
  std::byte* q;
  float* scale;
  std::int32_t* term;  // -kZeroOfBytes * sum(q): what the zero point of weights without a minimum adds
  float* sum;          // scale * sum(q): what a minimum is multiplied with
  std::int32_t *early_term,
      *late_term;       // -kZeroOfBytes * sum(q) of the first 16 inputs, and of the other 16
  std::int32_t* pair;   // sum(q) of both halves of a group, 16 bits each, the first one's below
  std::int32_t* peaks;  // bound sums of 256 inputs (RowPeaks)
  std::int64_t half, step;
};

// How large the numbers of 256 inputs are together. Kept in one number: no bits of one reach the other.
struct RowPeaks {
  std::int32_t of_32 = 0;  // the most that positive or negative ones among 32 inputs add up to
  std::int32_t of_16 = 0;  // the most that the magnitudes of 16 inputs add up to
  // Sums and sums of magnitudes of 16 inputs each, of 64.
  constexpr void include(const std::int32_t (&sums)[4], const std::int32_t (&magnitudes)[4]) {
    for (int half = 0; half < 4; half += 2) {
      const std::int32_t sum = sums[half] + sums[half + 1], all = magnitudes[half] + magnitudes[half + 1];
      of_32 = std::max(of_32, (all + (sum < 0 ? -sum : sum)) / 2);
      of_16 = std::max({of_16, magnitudes[half], magnitudes[half + 1]});
    }
  }
  constexpr std::int32_t packed() const { return of_32 | of_16 * (1 << 16); }
  constexpr static RowPeaks of(std::int32_t packed) { return {packed & 0xffff, packed >> 16}; }
};

// The lowest bit that 16 bits with a sign have no room for.
constexpr std::int32_t kSignOfHalf = 1 << 15;
// The zero point of bytes, which those of narrow numbers divide: terms of rows are that many times their
// sums.
constexpr std::int32_t kZeroOfBytes = 128;

struct LinearKernels {
  LinearTileFunction tiles[kNumPackedFormats];  // unpack and multiply panels of each PackedFormat
  std::int64_t f32_rows, bf16_rows, int8_rows;  // rows of a full panel
  // Rows of a panel in 8 bits, one strip at a time: beside bytes, and beside narrow numbers, which more rows
  // than these share once they are widened.
  std::int64_t stream_bytes_rows, stream_narrow_rows;
  std::int64_t integer_rows;  // full panels of PackedFormat::i8 have so many
  // The same beside K types alone, of more rows than widen these in registers.
  std::int64_t block_rows;
  // `scale_inputs`, 32 or 256, of a row have one scale.
  void (*quantize_row)(const float* x, std::int64_t k, std::int64_t scale_inputs, const QuantizedRow& out);
  // The same of whole numbers -128..127, which are kept: every scale is 1.
  void (*store_numbers)(const float* x, std::int64_t k, std::int64_t scale_inputs, const QuantizedRow& out);
  // A row, or groups of 64 of it, as PackedFormat::i8 multiplies it: the numbers of an arithmetic with int8
  // numbers and one scale a row, which is returned. Groups lie `step` bytes apart, the last filled up with
  // zeros.
  float (*integer_inputs)(const LinearArithmetic& arithmetic, const float* x, std::int64_t k, std::byte* out,
                          std::int64_t step);
  // x in the numbers of `arithmetic`, which is not own; written up to the next multiple of 16. Numbers in
  // groups come times their scale; else the row's scale is returned.
  float (*quantize_inputs)(const LinearArithmetic& arithmetic, const float* x, std::int64_t k, float* out);
  // x rounded to bf16, as the bf16 kernel of this level wants it: groups of 32 inputs `step` bytes apart, the
  // last filled up with zeros.
  void (*round_row)(const float* x, std::int64_t k, std::byte* out, std::int64_t step);
  // One element that round_row, and that quantize_row and integer_inputs write.
  std::int64_t bf16_bytes, int8_bytes;
  // Weights of one step: round((x - minimum) * inverse), half to even, in 0..255; writes up to the next
  // multiple of 16.
  void (*row_weights)(const float* x, std::int64_t k, float minimum, float inverse, std::uint8_t* out);
  // Rows of plain weights, for packing; written up to the next multiple of 16.
  void (*half_to_floats)(const void* x, std::int64_t n, float* out);  // reads up to that multiple too
  void (*floats_to_bf16)(const float* x, std::int64_t n, std::uint16_t* out);
  void (*floats_to_half)(const float* x, std::int64_t n, std::uint16_t* out);  // saturates
  std::int64_t panel_sum_bytes;  // kernels that keep a panel's sums in memory need so much for it
  bool widens_whole_strips;      // codes of floats become bf16 so, else widened_inputs() at a time

  static const LinearKernels portable, avx2, avx512;
  static const LinearKernels& amx();
};

constexpr std::int64_t kMaxStrips = 2;  // that a register tile may be wide

// The scales of 8-bit products' weights.
enum class PanelScales : std::uint8_t {
  none,
  shares,  // for 32 inputs, or 128, of the output's unit, in half precision
  bytes,   // for 32 inputs, or 16, times the block's in half precision
  floats,  // for 64 inputs or more, in float32
  e4m3,    // for 16 inputs, times one float of the output and over another
};

// How the panels of each PackedFormat are laid out; README.md has the blocks themselves.
struct PanelLayout {
  std::string_view name;      // in the description of a packed matrix
  std::int64_t header_bytes;  // before a strip's first block: its units
  std::int64_t block_inputs;  // so many inputs x 16 outputs
  std::int64_t scale_bytes;   // are a block: first its scales, and minima if it has them
  std::int64_t block_bytes;   // in all
  int bits = 0;               // a number takes so many in 8-bit products
  PanelScales scales = PanelScales::none;
  int scale_inputs = 32;  // that have one scale
  bool minima = false;
  int zero = 0;                             // the byte that stands for 0, where there are no minima
  PackedFormat wide = PackedFormat::plain;  // is widened to it for many rows
  const std::uint8_t* bytes = nullptr;      // the 16 that numbers stand for; null: themselves
  int code_bits = 0;                        // a float's code takes so many in products of bf16
  const float* values = nullptr;            // the 16 that codes of 4 bits stand for
  float share = 1;                          // a block's scale is so many times the number in half precision
};
struct ByteTable {
  std::uint8_t bytes[16];
  constexpr explicit ByteTable(const std::int8_t (&values)[16]) : bytes{} {
    for (int i = 0; i < 16; ++i) bytes[i] = static_cast<std::uint8_t>(values[i] + 128);
  }
};
inline constexpr ByteTable kIq4Bytes{kIq4Values}, kIq2Bytes{kIq2Values}, kIq1Bytes{kIq1Values},
    kIq3XxsBytes{kIq3XxsValues}, kIq3SBytes{kIq3SValues}, kFp4Bytes{kFp4Twice};
inline constexpr PanelLayout kPanelLayouts[kNumPackedFormats] = {
    {"plain", 0, 1, 0, 64},
    {"f32", 0, 1, 0, 64},
    {"bf16", 0, 2, 0, 64},
    {"q8", 64, 64, 64, 64 + 1024, 8, PanelScales::shares, 32, false, 128, PackedFormat::q8},
    {"q4", 64, 64, 128, 128 + 512, 4, PanelScales::shares, 32, true, 0, PackedFormat::q8m},
    {"f16", 0, 2, 0, 64},
    {"q8m", 64, 64, 128, 128 + 1024, 8, PanelScales::shares, 32, true, 0, PackedFormat::q8m},
    {"q4s", 64, 64, 64, 64 + 512, 4, PanelScales::shares, 32, false, 8, PackedFormat::q8},
    {"q4g", 64, 128, 64, 64 + 1024, 4, PanelScales::shares, 128, true, 0, PackedFormat::q8m},
    {"q5s", 64, 64, 64, 64 + 640, 5, PanelScales::shares, 32, false, 16, PackedFormat::q8},
    {"q5m", 64, 64, 128, 128 + 640, 5, PanelScales::shares, 32, true, 0, PackedFormat::q8m},
    {"iq4", 64, 64, 64, 64 + 512, 4, PanelScales::shares, 32, false, 128, PackedFormat::q8, kIq4Bytes.bytes},
    {"fp4", 64, 64, 64, 64 + 512, 4, PanelScales::shares, 32, false, 128, PackedFormat::q8, kFp4Bytes.bytes},
    {"q2_k", 0, 256, 320, 320 + 1024, 2, PanelScales::bytes, 16, true, 0, PackedFormat::wide16m},
    {"q3_k", 0, 256, 288, 288 + 1536, 3, PanelScales::bytes, 16, false, 4, PackedFormat::wide16},
    {"q4_k", 0, 256, 320, 320 + 2048, 4, PanelScales::bytes, 32, true, 0, PackedFormat::wide32m},
    {"q5_k", 0, 256, 320, 320 + 2560, 5, PanelScales::bytes, 32, true, 0, PackedFormat::wide32m},
    {"q6_k", 0, 256, 320, 320 + 3072, 6, PanelScales::bytes, 16, false, 32, PackedFormat::wide16},
    {"iq4_xs", 0, 256, 192, 192 + 2048, 4, PanelScales::bytes, 32, false, 128, PackedFormat::wide32,
     kIq4Bytes.bytes},
    {"iq3_xxs", 0, 256, 192, 192 + 2048, 4, PanelScales::bytes, 32, false, 128, PackedFormat::wide32,
     kIq3XxsBytes.bytes, 0, nullptr, kIq3XxsShare},
    {"iq3_s", 0, 256, 192, 192 + 2048, 4, PanelScales::bytes, 32, false, 128, PackedFormat::wide32,
     kIq3SBytes.bytes},
    {"iq2", 0, 256, 288, 288 + 1536, 3, PanelScales::bytes, 16, false, 128, PackedFormat::wide16,
     kIq2Bytes.bytes, 0, nullptr, kIqShare},
    {"iq1", 0, 256, 288, 288 + 1536, 3, PanelScales::bytes, 16, false, 128, PackedFormat::wide16,
     kIq1Bytes.bytes, 0, nullptr, kIqShare},
    {"iq2_xxs_points", 0, 256, 32, 32 + 1024, 2, PanelScales::bytes, 16, false, 128, PackedFormat::wide16,
     kIq2Bytes.bytes, 0, nullptr, kIqShare},
    {"iq2_xs_points", 0, 256, 160, 160 + 1024, 2, PanelScales::bytes, 16, false, 128, PackedFormat::wide16,
     kIq2Bytes.bytes, 0, nullptr, kIqShare},
    {"iq3_xxs_points", 0, 256, 32, 32 + 1536, 3, PanelScales::bytes, 32, false, 128, PackedFormat::wide32,
     kIq3XxsBytes.bytes, 0, nullptr, kIq3XxsShare},
    {"e4m3", 0, 128, 64, 64 + 2048, 0, PanelScales::floats, 128, false, 0, PackedFormat::bf16, nullptr, 8},
    {"nf4", 0, 64, 64, 64 + 512, 0, PanelScales::floats, 64, false, 0, PackedFormat::bf16, nullptr, 4,
     kNf4Values},
    {"nvfp4", 128, 64, 64, 64 + 512, 0, PanelScales::e4m3, 16, false, 0, PackedFormat::bf16, nullptr, 4,
     kE2m1Values},
    {"i8", 128, 64, 0, 1024, 8},
    {"wide32", 0, 256, 320, 320 + 4096, 8, PanelScales::bytes, 32, false, 128, PackedFormat::wide32},
    {"wide32m", 0, 256, 576, 576 + 4096, 8, PanelScales::bytes, 32, true, 0, PackedFormat::wide32m},
    {"wide16", 0, 256, 576, 576 + 4096, 8, PanelScales::bytes, 16, false, 128, PackedFormat::wide16},
    {"wide16m", 0, 256, 1088, 1088 + 4096, 8, PanelScales::bytes, 16, true, 0, PackedFormat::wide16m},
};
constexpr const PanelLayout& panel_layout(PackedFormat format) {
  return kPanelLayouts[static_cast<std::size_t>(format)];
}
// Whether weights lie as codes of floats, which become bf16 on their way into products.
constexpr bool has_codes(PackedFormat format) { return panel_layout(format).code_bits > 0; }
// Whether weights lie as points of a table (panel_points.h).
constexpr bool has_points(PackedFormat format) {
  return format >= PackedFormat::iq2_xxs_points && format <= PackedFormat::iq3_xxs_points;
}
// Whether weights lie in fewer bits than they are multiplied in: those, or numbers that become bytes.
constexpr bool is_narrow(PackedFormat format) {
  return has_codes(format) || (panel_layout(format).bits > 0 && panel_layout(format).bits < 8);
}
// So many inputs of kMaxStrips strips stay in the first-level cache in the form that they are widened to.
constexpr std::int64_t widened_inputs(PackedFormat format) { return has_codes(format) ? 256 : 512; }
// The largest magnitude of a narrow number, its zero point taken off.
constexpr std::int32_t largest_number(PackedFormat format) {
  const PanelLayout& layout = panel_layout(format);
  if (layout.bytes != nullptr) {
    std::int32_t largest = 0;
    for (int i = 0; i < 16; ++i) largest = std::max(largest, std::abs(layout.bytes[i] - layout.zero));
    return largest;
  }
  return layout.minima ? (1 << layout.bits) - 1 : layout.zero;
}
// The numbers of 32 inputs of a strip; of points their indices and signs, which take as many bits.
constexpr std::int64_t number_bytes(PackedFormat format) { return 64 * panel_layout(format).bits; }
constexpr std::int64_t packed_block_bytes(PackedFormat format) { return panel_layout(format).block_bytes; }
constexpr std::int64_t scale_bytes(PackedFormat format) { return panel_layout(format).scale_bytes; }
constexpr std::int64_t strip_header_bytes(PackedFormat format) { return panel_layout(format).header_bytes; }
constexpr std::int64_t strip_bytes(PackedFormat format, std::int64_t k) {
  const PanelLayout& layout = panel_layout(format);
  return layout.header_bytes + (k + layout.block_inputs - 1) / layout.block_inputs * layout.block_bytes;
}

}  // namespace pagoda::cpu
