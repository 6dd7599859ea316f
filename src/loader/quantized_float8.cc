// Weights in 8-bit floats: e4m3 bytes in the weight's shape, and scales per tensor, per row, or per block of
// rows and columns, of which the last may be smaller. Stacked experts have separate scales.
#include <algorithm>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "loader/quantized_weight.h"
#include "tensor/shape_text.h"
#include "tensor/small_floats.h"

namespace pagoda {
namespace {

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

// Each matrix has a scale per `rows` x `columns` weights.
struct ScaleBlocks {
  std::int64_t rows = 0, columns = 0;
  ScaleShape shape = ScaleShape::tensor;
};

// How a weight [.., rows, columns] shares `scales`; nullopt if their shape does not fit.
std::optional<ScaleBlocks> shared_by(const Quantization& how, const std::vector<std::int64_t>& weight,
                                     const ScaleValues& scales) {
  const std::int64_t columns = weight.back(), rows = weight[weight.size() - 2];
  std::int64_t matrices = 1;
  for (std::size_t axis = 0; axis + 2 < weight.size(); ++axis) matrices *= weight[axis];
  const std::int64_t all_rows = matrices * rows;
  if (scales.count() == 1) {
    const bool block = std::ranges::any_of(how.schemes, [&](const WeightScheme& scheme) {
      return scheme.scales == ScaleShape::block && all_rows <= scheme.block_rows &&
             columns <= scheme.block_columns;
    });
    if (block) return ScaleBlocks{all_rows, columns, ScaleShape::block};
    // A table with one entry for a matrix of several blocks is damaged.
    const bool is_table = scales.shape().size() > 1 && how.says(ScaleShape::block);
    if (all_rows > 1 && (is_table || !how.says(ScaleShape::tensor))) return std::nullopt;
    return ScaleBlocks{all_rows, columns, ScaleShape::tensor};
  }
  std::vector<std::int64_t> shape = scales.shape();
  if (shape.size() + 1 == weight.size()) shape.push_back(1);  // [rows], or [experts, rows]
  // One scale per expert: [experts], or with dimensions of 1.
  if (matrices > 1 && scales.count() == matrices && scales.shape().front() == matrices)
    return ScaleBlocks{rows, columns};
  if (shape.size() != weight.size() || !std::equal(shape.begin(), shape.end() - 2, weight.begin()))
    return std::nullopt;
  const std::int64_t down = shape[shape.size() - 2], across = shape.back();
  if (down == rows && across == 1) return ScaleBlocks{1, columns, ScaleShape::channel};
  if (weight.size() > 2 && down == 1 && across == columns)  // [experts, in, out]
    return ScaleBlocks{rows, 1, ScaleShape::channel};
  for (const WeightScheme& scheme : how.schemes)
    if (scheme.scales == ScaleShape::block && down == blocks(rows, scheme.block_rows) &&
        across == blocks(columns, scheme.block_columns))
      return ScaleBlocks{scheme.block_rows, scheme.block_columns, ScaleShape::block};
  return std::nullopt;
}

bool is_no_number(std::uint8_t bits) { return (bits & 0x7f) == 0x7f; }

// Both return the end of their output.
std::byte* put_values(const std::uint8_t* numbers, std::int64_t count, float scale, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i, to += sizeof(float)) {
    const float value = e4m3_value(numbers[i]) * scale;
    std::memcpy(to, &value, sizeof value);
  }
  return to;
}
// DType::fp8: the scale precedes 32 numbers.
std::byte* put_numbers(const std::uint8_t* numbers, std::int64_t count, float scale, std::byte* to) {
  for (std::int64_t i = 0; i < count; i += 32, to += 36) {
    std::memcpy(to, &scale, sizeof scale);
    std::memcpy(to + 4, numbers + i, 32);
  }
  return to;
}

}  // namespace

Result<QuantizedWeight> float8_weight(const Quantization& how, const StoredTensors& stored,
                                      const FileTensor& weight) {
  if (weight.shape.size() < 2) return wrong_shape(weight, "and needs two dimensions or more");
  std::string scale = weight.name + "_scale_inv";
  if (!stored.contains(scale)) scale = scale_name(stored, weight.name);
  PAGODA_ASSIGN_OR_RETURN(const ScaleValues scales, ScaleValues::find(stored, scale));
  const std::optional<ScaleBlocks> block = shared_by(how, weight.shape, scales);
  if (!block)
    return bad_tensor(scale, "has shape ", shape_text(scales.shape()), ", which does not fit to weights of ",
                      shape_text(weight.shape), " in ", how.text());
  QuantizedWeight out{.number = QuantizedNumber::e4m3,
                      .scales = block->shape,
                      .shape = weight.shape,
                      .parts = {weight.name, scale}};
  const std::int64_t columns = out.columns(),
                     rows = block->rows == out.rows() ? out.rows() : weight.shape[weight.shape.size() - 2];
  // Uses blocks of the stored numbers if each 128 inputs of a panel share a scale; stacked weights may be
  // [experts, in, out], where 32 rows must share one, too.
  const bool as_stored = columns % 32 == 0 && (block->columns >= columns || block->columns % 128 == 0) &&
                         (weight.shape.size() == 2 || block->rows >= rows || block->rows % 32 == 0);
  if (as_stored) out.dtype = DType::fp8;
  out.decode = [weight, scales = scales, block = *block, columns, rows, as_stored](
                   std::int64_t first, std::int64_t count, std::byte* to) -> Status {
    const std::int64_t across = blocks(columns, block.columns), down = blocks(rows, block.rows);
    for (std::int64_t row = first; row < first + count; ++row) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(weight.data) + row * columns;
      const std::int64_t scale_row = row / rows * down + row % rows / block.rows;
      if (std::any_of(bytes, bytes + columns, is_no_number))
        return bad_tensor(weight.name, "has a weight that is not a number");
      for (std::int64_t begin = 0, part = 0; begin < columns; begin += block.columns, ++part) {
        float scale = 0;
        PAGODA_RETURN_IF_ERROR(scales.read(scale_row * across + part, scale));
        const std::int64_t end = std::min(columns, begin + block.columns);
        to = as_stored ? put_numbers(bytes + begin, end - begin, scale, to)
                       : put_values(bytes + begin, end - begin, scale, to);
      }
    }
    return ok_status();
  };
  return out;
}

}  // namespace pagoda
