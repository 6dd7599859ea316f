#include "kernels/cpu/panel_points.h"

#include <cstring>

#include "kernels/formats/formats.h"
#include "kernels/formats/iq_grids.h"

namespace pagoda::cpu {
namespace {

int size_of(int point, int i) { return formats::kIq2XxsGrid[point] >> (2 * i) & 3; }
int value_of(int size, bool negative) { return kIq2Values[size | int{negative} << 2]; }

PointTables made_tables() {
  PointTables out;
  for (int half = 0; half < 2; ++half) {
    for (int point = 0; point < kPoints; ++point) {
      int byte = 0;
      for (int i = 0; i < 4; ++i) byte |= size_of(point, 4 * half + i) << (2 * i);
      out.sizes[half][point] = static_cast<std::uint8_t>(byte);
    }
  }
  for (int i = 0; i < 4; ++i) {
    const SizeField field = kSizeFields[i];
    for (int byte = 0; byte < 64; ++byte) {
      const int size = (byte & field.where) / (field.where & -field.where);
      out.weights[i][byte] = static_cast<std::uint8_t>(128 + value_of(size, (byte >> field.sign & 1) != 0));
    }
  }
  return out;
}

// A block of one output into its strip.
void put_block(const PointBlock& b, std::int64_t c, std::uint8_t* block) {
  std::memcpy(block + 2 * c, &b.d, 2);
  for (int g = 0; g < kPointGroups; ++g) {
    std::memcpy(block + indices_at(g) + 4 * c, b.points + 4 * g, 4);
    std::memcpy(block + signs_at(g) + 4 * c, &b.signs[g], 4);
  }
}

}  // namespace

const PointTables& point_tables() {
  static const PointTables tables = made_tables();
  return tables;
}

void pack_points(const TensorView& view, std::int64_t first_row, std::int64_t rows, std::uint8_t* strip) {
  const std::int64_t stored_bytes = dtype_info(view.dtype).block_bytes, k = view.columns();
  const auto read = weight_format(view.dtype).points;
  PointBlock b;
  for (std::int64_t c = 0; c < rows; ++c) {
    const auto* row =
        reinterpret_cast<const std::uint8_t*>(view.data) + (first_row + c) * dtype_bytes(view.dtype, k);
    for (std::int64_t i = 0; i < k / kSuperBlockInputs; ++i) {
      read(row + i * stored_bytes, b);
      put_block(b, c, strip + i * packed_block_bytes(PackedFormat::iq2_xxs));
    }
  }
}

void point_values(const std::byte* block, std::int64_t c, std::int8_t* values, std::int8_t* scales) {
  for (int g = 0; g < kPointGroups; ++g) {
    std::uint32_t signs;
    std::memcpy(&signs, block + signs_at(g) + 4 * c, 4);
    scales[g] = static_cast<std::int8_t>(2 * static_cast<int>(signs >> 28) + 1);
    for (int i = 0; i < 32; ++i, ++values) {
      const int point = std::to_integer<int>(block[indices_at(g) + 4 * c + i / 8]);
      const bool negative = (formats::even_signs(signs >> (i / 8 * 7)) >> (i % 8) & 1) != 0;
      *values = static_cast<std::int8_t>(value_of(size_of(point, i % 8), negative));
    }
  }
}

}  // namespace pagoda::cpu
