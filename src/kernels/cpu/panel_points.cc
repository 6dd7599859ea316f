#include "kernels/cpu/panel_points.h"

#include <array>
#include <cstring>

#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::cpu {
namespace {

constexpr int kFirstPoints = static_cast<int>(PackedFormat::iq2_xxs_points);
constexpr const std::uint16_t* kGrids[] = {formats::kIq2XxsGrid, formats::kIq2XsGrid, formats::kIq3XxsGrid};
constexpr std::size_t point_format(PackedFormat format) {
  return static_cast<std::size_t>(format) - kFirstPoints;
}

int size_of(PackedFormat format, int point, int i) {
  const int bits = 16 / point_layout(format).coordinates;
  return kGrids[point_format(format)][point] >> (bits * i) & (bits == 2 ? 3 : 7);
}
std::uint8_t byte_of(PackedFormat format, int size, bool negative) {
  const int sign = point_layout(format).coordinates == 8 ? 4 : 8;
  return panel_layout(format).bytes[size + (negative ? sign : 0)];
}

PointTables made_tables(PackedFormat format) {
  const PointLayout layout = point_layout(format);
  const int of_table = layout.coordinates / 2, bits = 8 / of_table;
  PointTables out{};
  for (int table = 0; table < 2; ++table) {
    for (int point = 0; point < 1 << layout.index_bits; ++point) {
      int byte = 0;
      for (int i = 0; i < of_table; ++i) byte |= size_of(format, point, of_table * table + i) << (bits * i);
      out.sizes[table][point] = static_cast<std::uint8_t>(byte);
    }
  }
  for (int line = 0; line < 4; ++line) {
    const MergedLine merged = merged_line(layout, line);
    for (int byte = 0; byte < 64; ++byte) {
      const int size = byte >> merged.size & merged.where >> merged.size & (bits == 2 ? 3 : 7);
      out.weights[merged.table][byte] = byte_of(format, size, (byte >> merged.sign & 1) != 0);
    }
  }
  return out;
}

// The offset of byte `point` of 32 inputs, counted along the inputs, within their lines.
std::int64_t place_of(const PointLayout& layout, int group, int point, std::int64_t c) {
  return layout.index_at(group, point % layout.lines()) + 4 * c + point / layout.lines();
}

// Writes a block of one output into its strip.
void put_block(const PointLayout& layout, const PointBlock& b, std::int64_t c, std::uint8_t* block) {
  std::memcpy(block + 2 * c, &b.d, 2);
  for (int g = 0; g < kPointGroups; ++g) {
    std::uint32_t signs = 0;
    for (int j = 0; j < 4; ++j) signs |= std::uint32_t{b.signs[4 * g + j] & 127u} << (7 * j);
    for (int p = 0; p < 4 * layout.lines(); ++p) {
      const std::uint32_t point = b.points[4 * layout.lines() * g + p];
      block[place_of(layout, g, p, c)] = static_cast<std::uint8_t>(point);
      if (layout.index_bits > 8) signs |= point >> 8 << (28 + p);
    }
    if (layout.has_scale_bytes())
      block[layout.scales_at(g) + c] = static_cast<std::uint8_t>(b.scales[2 * g] | b.scales[2 * g + 1] << 4);
    else
      signs |= std::uint32_t{b.scales[2 * g]} << 28;
    std::memcpy(block + layout.signs_at(g) + 4 * c, &signs, 4);
  }
}

// Reads the block back from the strip, without d.
PointBlock block_at(const PointLayout& layout, const std::byte* block, std::int64_t c) {
  PointBlock b;
  for (int g = 0; g < kPointGroups; ++g) {
    std::uint32_t signs;
    std::memcpy(&signs, block + layout.signs_at(g) + 4 * c, 4);
    for (int j = 0; j < 4; ++j) b.signs[4 * g + j] = formats::even_signs(signs >> (7 * j));
    for (int p = 0; p < 4 * layout.lines(); ++p) {
      const unsigned low = std::to_integer<unsigned>(block[place_of(layout, g, p, c)]);
      const unsigned high = layout.index_bits > 8 ? signs >> (28 + p) & 1 : 0;
      b.points[4 * layout.lines() * g + p] = static_cast<std::uint16_t>(low | high << 8);
    }
    const unsigned scales = layout.has_scale_bytes()
                                ? std::to_integer<unsigned>(block[layout.scales_at(g) + c])
                                : (signs >> 28) * 0x11;
    b.scales[2 * g] = scales & 15;
    b.scales[2 * g + 1] = static_cast<std::uint8_t>(scales >> 4);
  }
  return b;
}

}  // namespace

const PointTables& point_tables(PackedFormat format) {
  static const auto tables = [] {
    std::array<PointTables, std::size(kGrids)> out;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = made_tables(static_cast<PackedFormat>(static_cast<std::size_t>(kFirstPoints) + i));
    return out;
  }();
  return tables[point_format(format)];
}

void pack_points(const TensorView& view, PackedFormat format, std::int64_t first_row, std::int64_t rows,
                 std::uint8_t* strip) {
  const std::int64_t stored_bytes = dtype_info(view.dtype).block_bytes, k = view.columns();
  const PointLayout layout = point_layout(format);
  const auto read = weight_format(view.dtype).points;
  PointBlock b;
  for (std::int64_t c = 0; c < rows; ++c) {
    const auto* row =
        reinterpret_cast<const std::uint8_t*>(view.data) + (first_row + c) * dtype_bytes(view.dtype, k);
    for (std::int64_t i = 0; i < k / kSuperBlockInputs; ++i) {
      read(row + i * stored_bytes, b);
      put_block(layout, b, c, strip + i * packed_block_bytes(format));
    }
  }
}

void point_values(PackedFormat format, const std::byte* block, std::int64_t c, std::int8_t* values,
                  std::int8_t* scales) {
  const PointLayout layout = point_layout(format);
  const PointBlock b = block_at(layout, block, c);
  for (int s = 0; s < 16; ++s) scales[s] = formats::odd_scale(b.scales[s]);
  for (int i = 0; i < kSuperBlockInputs; ++i) {
    const int size = size_of(format, b.points[i / layout.coordinates], i % layout.coordinates);
    values[i] = static_cast<std::int8_t>(byte_of(format, size, (b.signs[i / 8] >> (i % 8) & 1) != 0) - 128);
  }
}

}  // namespace pagoda::cpu
