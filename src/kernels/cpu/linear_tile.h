#pragma once
// The contract between linear's dispatch (baseline code: tiles, threads, activations) and its inner loops
// (one file per instruction set). Plain pointers only.
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
constexpr std::int64_t kStreamRows = 16;  // up to this many rows are bound by memory
// Fewer rows are entirely bound by memory and prefetch nothing for later readers.
constexpr std::int64_t kFetchRows = 4;
constexpr std::int64_t kOwnRows = 48;  // rows per thread: from this many on, each thread keeps its own rows

constexpr std::int64_t kNextStrips = -1;  // prefetch as far ahead as the strips computed together are long

// Rows are cut into panels of nearly equal height, at most that of the register tile. The R rows of a panel
// are interleaved so that a kernel advances a single pointer:
//   f32       [K][R]
//   bf16      [K/32][R][32]
//   8 bits    [K/64] groups: q [R][64], scale, term, sum, early term, late term [2][R], pair, peaks [R]
//   integers  [K/64][R][64] (PackedFormat::i8)
// A group of 8 bits consists of whole cache lines, since different threads may fill groups. q has the width
// that the kernels multiply. Of the values from scale to late term, each half of a group's inputs has its
// own. Peaks are stored in the first group of each 256 inputs.
struct Panels {
  std::int64_t num_rows = 0, count = 0;
  std::int64_t bytes = 0;   // distance between panels
  bool two_strips = false;  // multiply two strips at once; otherwise one, which is read as one long stream
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
  std::int64_t last_columns = kStrip;       // valid columns of the last strip
  const std::byte* next_weights = nullptr;  // this thread's probable next weights, or null
  std::int64_t bytes_ahead = kNextStrips;   // how far ahead a strip's weights are prefetched; 0: no prefetch

  Panels panels;
  std::int64_t first_panel = 0, last_panel = 0;
  const std::byte* x = nullptr;  // the first panel: floats, bf16 (or floats rounded to bf16), or int8
  // Space for widening the narrow weights of several panels, widened_inputs() at a time, for kMaxStrips
  // strips; and for the sums of all rows of the tile with these strips. For kernels that widen whole strips,
  // space for whole strips, whatever the number of rows. For kernels with panel_sum_bytes, that many per
  // panel, for at least two panels.
  std::byte* scratch = nullptr;
  float* sums = nullptr;
  // The largest magnitude of a widened number, after subtracting the zero point.
  std::int32_t largest_number = 0;

  // Bytes [later_begin, later_end) of these concatenated pieces are prefetched meanwhile.
  const std::byte* const* later = nullptr;
  std::int64_t later_piece_bytes = 0, later_begin = 0, later_end = 0;

  float* y = nullptr;  // first row and column of the tile
  std::int64_t first_row = 0;
  std::int64_t y_stride = 0;
  const float* row_scales = nullptr;  // per row, a factor of its products, or null
  const float* bias = nullptr;        // starting at the first column, or null
  bool accumulate = false;
  // A part of the inputs: `k` inputs of x from `first_input` on; `weights` holds only this part.
  std::int64_t first_input = 0;
  bool is_first_part = true, is_last_part = true;
  bool past_caches = false;  // write whole lines of y straight to memory; y and its rows are aligned to lines
};

using LinearTileFunction = void (*)(const LinearTile& tile);

// The location of one row's activations: groups (64 inputs) are `step` bytes apart; the second half of a
// group is `half` numbers after the first.
struct QuantizedRow {
  std::byte* q;
  float* scale;
  std::int32_t* term;  // -kZeroOfBytes * sum(q): the zero point's contribution for weights without a minimum
  float* sum;          // scale * sum(q): the factor of a minimum
  std::int32_t *early_term,
      *late_term;       // -kZeroOfBytes * sum(q) of the first 16 inputs, and of the last 16
  std::int32_t* pair;   // sum(q) of both halves of a group, 16 bits each, the first in the lower half
  std::int32_t* peaks;  // bounds on sums over 256 inputs (RowPeaks)
  std::int64_t half, step;
};

// Bounds on sums over 256 inputs, packed into one number: the fields do not overlap.
struct RowPeaks {
  std::int32_t of_32 = 0;  // largest sum of the positive, or of the negative, numbers among 32 inputs
  std::int32_t of_16 = 0;  // largest sum of magnitudes of 16 inputs
  // Sums, and sums of magnitudes, per 16 of 64 inputs.
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

// The first bit beyond the magnitude of a signed 16-bit number.
constexpr std::int32_t kSignOfHalf = 1 << 15;
// The zero point of bytes. A multiple of every narrow number's zero point: rows' terms are this many times
// their sums.
constexpr std::int32_t kZeroOfBytes = 128;

struct LinearKernels {
  LinearTileFunction tiles[kNumPackedFormats];  // unpack and multiply the panels of each PackedFormat
  std::int64_t f32_rows, bf16_rows, int8_rows;  // rows of a full panel
  // Rows per panel in 8 bits when one strip is multiplied at a time: with byte weights, and with narrow
  // weights. More rows than these share weights that were widened once.
  std::int64_t stream_bytes_rows, stream_narrow_rows;
  std::int64_t integer_rows;  // rows of a full panel of PackedFormat::i8
  // The same if all weights are K types, for more rows than widen them in registers.
  std::int64_t block_rows;
  // `scale_inputs`: the number of inputs of a row that share a scale, 32 or 256.
  void (*quantize_row)(const float* x, std::int64_t k, std::int64_t scale_inputs, const QuantizedRow& out);
  // The same for whole numbers -128..127, which are kept: every scale is 1.
  void (*store_numbers)(const float* x, std::int64_t k, std::int64_t scale_inputs, const QuantizedRow& out);
  // Converts a row, or groups of 64 of it, to the form that PackedFormat::i8 multiplies: for an arithmetic
  // with int8 numbers and one scale per row, which is returned. Groups are `step` bytes apart, the last one
  // padded with zeros.
  float (*integer_inputs)(const LinearArithmetic& arithmetic, const float* x, std::int64_t k, std::byte* out,
                          std::int64_t step);
  // Rounds x to the numbers of `arithmetic`, which must not be is_own(); writes up to the next multiple of
  // 16. Numbers with group scales are written times their scale; otherwise the row's scale is returned.
  float (*quantize_inputs)(const LinearArithmetic& arithmetic, const float* x, std::int64_t k, float* out);
  // Rounds x to bf16 in the form required by this level's bf16 kernel: groups of 32 inputs `step` bytes
  // apart, the last one padded with zeros.
  void (*round_row)(const float* x, std::int64_t k, std::byte* out, std::int64_t step);
  // The size of an element written by round_row, and by quantize_row and integer_inputs.
  std::int64_t bf16_bytes, int8_bytes;
  // Weights of one step: round((x - minimum) * inverse), half to even, in 0..255; writes up to the next
  // multiple of 16.
  void (*row_weights)(const float* x, std::int64_t k, float minimum, float inverse, std::uint8_t* out);
  // Convert rows of plain weights for packing; write up to the next multiple of 16.
  void (*half_to_floats)(const void* x, std::int64_t n, float* out);  // reads up to that multiple too
  void (*floats_to_bf16)(const float* x, std::int64_t n, std::uint16_t* out);
  void (*floats_to_half)(const float* x, std::int64_t n, std::uint16_t* out);  // saturates
  std::int64_t panel_sum_bytes;  // memory per panel for kernels that keep a panel's sums in memory
  // Float codes are widened to bf16 by whole strips, otherwise widened_inputs() at a time.
  bool widens_whole_strips;

  static const LinearKernels portable, avx2, avx512;
  static const LinearKernels& amx();
};

constexpr std::int64_t kMaxStrips = 2;  // maximum width of a register tile

// The kind of scales of weights for 8-bit products.
enum class PanelScales : std::uint8_t {
  none,
  shares,  // per 32 or 128 inputs, relative to the output's unit, in half precision
  bytes,   // per 32 or 16 inputs, times the block's scale in half precision
  floats,  // per 64 inputs or more, in float32
  e4m3,    // per 16 inputs, times one float of the output and divided by another
};

// The panel layout of each PackedFormat; README.md describes the blocks.
struct PanelLayout {
  std::string_view name;      // in the description of a packed matrix
  std::int64_t header_bytes;  // precedes a strip's first block: its units
  std::int64_t block_inputs;  // inputs per block, each for 16 outputs
  std::int64_t scale_bytes;   // scales at the start of a block, followed by the minima if there are any
  std::int64_t block_bytes;   // total bytes of a block
  int bits = 0;               // bits per number, for 8-bit products
  PanelScales scales = PanelScales::none;
  int scale_inputs = 32;  // inputs per scale
  bool minima = false;
  int zero = 0;                             // zero point, for formats without minima
  PackedFormat wide = PackedFormat::plain;  // format to which panels are widened for many rows
  // The 16 bytes that numbers index; null: numbers are the bytes themselves.
  const std::uint8_t* bytes = nullptr;
  int code_bits = 0;              // bits per float code, for bf16 products
  const float* values = nullptr;  // the 16 values that 4-bit codes index
  float share = 1;                // factor of a block's half-precision scale
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
// True if weights are stored as float codes, which products convert to bf16.
constexpr bool has_codes(PackedFormat format) { return panel_layout(format).code_bits > 0; }
// True if weights are stored as table points (panel_points.h).
constexpr bool has_points(PackedFormat format) {
  return format >= PackedFormat::iq2_xxs_points && format <= PackedFormat::iq3_xxs_points;
}
// True if weights are stored in fewer bits than they are multiplied in: float codes, or numbers that are
// widened to bytes.
constexpr bool is_narrow(PackedFormat format) {
  return has_codes(format) || (panel_layout(format).bits > 0 && panel_layout(format).bits < 8);
}
// The number of inputs of kMaxStrips strips that, once widened, stay in the first-level cache.
constexpr std::int64_t widened_inputs(PackedFormat format) { return has_codes(format) ? 256 : 512; }
// The largest magnitude of a narrow number, after subtracting the zero point.
constexpr std::int32_t largest_number(PackedFormat format) {
  const PanelLayout& layout = panel_layout(format);
  if (layout.bytes != nullptr) {
    std::int32_t largest = 0;
    for (int i = 0; i < 16; ++i) largest = std::max(largest, std::abs(layout.bytes[i] - layout.zero));
    return largest;
  }
  return layout.minima ? (1 << layout.bits) - 1 : layout.zero;
}
// The bytes of the numbers of 32 inputs of a strip; for points, of their indices and signs, which take as
// many bits.
constexpr std::int64_t number_bytes(PackedFormat format) { return 64 * panel_layout(format).bits; }
constexpr std::int64_t packed_block_bytes(PackedFormat format) { return panel_layout(format).block_bytes; }
constexpr std::int64_t scale_bytes(PackedFormat format) { return panel_layout(format).scale_bytes; }
constexpr std::int64_t strip_header_bytes(PackedFormat format) { return panel_layout(format).header_bytes; }
constexpr std::int64_t strip_bytes(PackedFormat format, std::int64_t k) {
  const PanelLayout& layout = panel_layout(format);
  return layout.header_bytes + (k + layout.block_inputs - 1) / layout.block_inputs * layout.block_bytes;
}

}  // namespace pagoda::cpu
