// Integers with a scale, and often a zero point, per group of neighbours in a row. GPTQ and AWQ store them as
// [in, out], eight or four per 32-bit word, or 32 per three words in 3 bits; compressed-tensors as [out, in].
// With GPTQ's activation order, each column names its group. Source: AutoGPTQ's and AutoAWQ's packers,
// compressed-tensors 0.20 pack_quantized, vLLM's loaders.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/integer_weight.h"
#include "loader/printable.h"
#include "tensor/shape_text.h"

namespace pagoda {
namespace {

// Returns the group size for this many groups, which must be one that the folder names; a single group is a
// row.
Result<std::int64_t> group_size_of(const Quantization& how, const Integers& of, const ScaleValues& scales) {
  if (of.groups == 1 && how.schemes.empty()) return of.columns;  // only the tensors tell
  for (const WeightScheme& scheme : how.schemes) {
    const bool of_rows = scheme.scales != ScaleShape::group || scheme.group_size >= of.columns;
    if (of.groups == 1 && of_rows) return of.columns;
    if (scheme.group_size > 0 && of.columns == of.groups * scheme.group_size) return scheme.group_size;
  }
  return bad_tensor(scales.name(), "has ", of.groups, " groups of ", of.columns,
                    " columns, which are not those of ", how.text());
}

// The common parts of GPTQ, [in / 8, out], and AWQ, [in, out / 8].
struct Parts {
  FileTensor codes, zeros;
  std::string module;
  std::vector<std::string> names;
  Integers of;
};
Result<Parts> parts_of(const StoredTensors& stored, const FileTensor& weight) {
  const std::string module = weight.name.substr(0, weight.name.rfind(".qweight"));
  PAGODA_ASSIGN_OR_RETURN(auto codes, find_part(stored, weight.name, "I32", 2));
  PAGODA_ASSIGN_OR_RETURN(auto zeros, find_part(stored, module + ".qzeros", "I32", 2));
  PAGODA_ASSIGN_OR_RETURN(auto scales, ScaleValues::find(stored, module + ".scales"));
  if (scales.shape().size() != 2 || scales.shape()[0] < 1 || scales.shape()[0] != zeros.shape[0])
    return bad_tensor(scales.name(), "has shape ", shape_text(scales.shape()), " and its zero points ",
                      shape_text(zeros.shape));
  Integers of{.name = weight.name, .rows = scales.shape()[1], .groups = scales.shape()[0]};
  of.scales = std::move(scales);
  of.by_row = 1;
  of.by_group = of.rows;
  return Parts{std::move(codes),
               std::move(zeros),
               module,
               {weight.name, module + ".qzeros", module + ".scales"},
               std::move(of)};
}

// True if the scheme of every module with this many bits sets `what`.
bool all_have(const Quantization& how, std::int32_t bits, bool WeightScheme::* what) {
  bool any = false;
  for (const WeightScheme& scheme : how.schemes) {
    if (scheme.number != integer_of(bits)) continue;
    if (!(scheme.*what)) return false;
    any = true;
  }
  return any;
}

Status missing(const Quantization& how, const std::string& name) {
  return bad_tensor(name, "is missing, which ", how.text(), " needs");
}

// Reads `<module>.g_idx`. It is dropped if it only describes contiguous groups.
Status read_group_indices(const StoredTensors& stored, const std::string& name, Integers& of,
                          std::vector<std::string>& parts, const Quantization& how) {
  if (stored.contains(name)) {
    PAGODA_ASSIGN_OR_RETURN(const auto indices, find_part(stored, name, "I32", 1));
    if (indices.shape[0] != of.columns)
      return wrong_shape(indices, concat("where the weight has ", of.columns, " columns"));
    for (std::int64_t column = 0; column < of.columns; ++column) {
      const auto group = static_cast<std::int32_t>(word_at(indices, column));
      if (group < 0 || group >= of.groups) return bad_tensor(name, "names group ", group, " of ", of.groups);
      of.group_of_column.push_back(group);
    }
    parts.push_back(name);
  } else if (of.groups > 1 && all_have(how, of.bits, &WeightScheme::activation_order)) {
    return missing(how, name);
  }
  const Result<std::int64_t> size = group_size_of(how, of, of.scales);
  const bool ordered = std::ranges::is_sorted(of.group_of_column);
  if (size) {
    of.group_size = *size;
    bool neighbours = ordered;
    for (std::size_t i = 0; neighbours && i < of.group_of_column.size(); ++i)
      neighbours = of.group_of_column[i] == static_cast<std::int32_t>(i) / *size;
    if (neighbours) of.group_of_column.clear();
    return ok_status();
  }
  return size.error();
}

}  // namespace

Result<QuantizedWeight> gptq_weight(const Quantization& how, const StoredTensors& stored,
                                    const FileTensor& weight) {
  PAGODA_ASSIGN_OR_RETURN(auto parts, parts_of(stored, weight));
  Integers& of = parts.of;
  if (parts.codes.shape[1] != of.rows)
    return wrong_shape(parts.codes, concat("and its scales ", shape_text(of.scales.shape())));
  const std::int64_t zero_words = parts.zeros.shape[1],
                     bits = zero_words * 32 / std::max<std::int64_t>(of.rows, 1);
  if (bits * of.rows != zero_words * 32 || !integer_of(bits))
    return wrong_shape(parts.zeros, concat("where the weight has ", of.rows, " rows of 2, 3, 4 or 8 bits"));
  of.bits = static_cast<std::int32_t>(bits);
  of.columns = parts.codes.shape[0] * 32 / bits;
  if (of.columns * bits != parts.codes.shape[0] * 32)
    return wrong_shape(parts.codes, concat("which is no whole number of columns of ", bits, " bits"));
  PAGODA_RETURN_IF_ERROR(read_group_indices(stored, parts.module + ".g_idx", of, parts.names, how));
  of.zero = [zeros = parts.zeros, zero_words, bits = of.bits, less = how.zeros_less_one ? 1u : 0u](
                std::int64_t row, std::int64_t group) {
    return static_cast<float>((code_at(zeros, group * zero_words, 1, bits, row) + less) & ((1u << bits) - 1));
  };
  if (of.bits == 8) {
    of.symmetric = true;
    for (std::int64_t group = 0; group < of.groups && of.symmetric; ++group)
      for (std::int64_t row = 0; row < of.rows && of.symmetric; ++row)
        of.symmetric = of.zero(row, group) == 128;
  }
  of.codes = [codes = parts.codes, rows = of.rows, columns = of.columns, bits = of.bits](
                 std::int64_t first, std::int64_t count, std::uint8_t* to) {
    for (std::int64_t column = 0; column < columns; column += 32)  // whole words
      for (std::int64_t row = 0; row < count; ++row)
        read_codes(codes, column / 32 * bits * rows + first + row, rows, bits,
                   std::min<std::int64_t>(32, columns - column), to + row * columns + column);
  };
  return weight_of(std::move(of), std::move(parts.names));
}

Result<QuantizedWeight> awq_weight(const Quantization& how, const StoredTensors& stored,
                                   const FileTensor& weight) {
  PAGODA_ASSIGN_OR_RETURN(auto parts, parts_of(stored, weight));
  Integers& of = parts.of;
  of.columns = parts.codes.shape[0];
  const std::int64_t words = parts.codes.shape[1];
  if (of.rows != words * 8 || parts.zeros.shape[1] != words)
    return wrong_shape(parts.codes, concat("its zero points ", shape_text(parts.zeros.shape),
                                           " and its scales ", shape_text(of.scales.shape())));
  PAGODA_ASSIGN_OR_RETURN(of.group_size, group_size_of(how, of, of.scales));
  // Elements 0, 2, 4 and 6 of eight neighbours are in the lower half of a word.
  static constexpr std::array<int, 8> kShift = {0, 16, 4, 20, 8, 24, 12, 28};
  const auto code = [](const FileTensor& packed, std::int64_t line, std::int64_t line_words,
                       std::int64_t row) {
    const std::uint32_t word = word_at(packed, line * line_words + row / 8);
    return static_cast<std::uint8_t>(word >> kShift[static_cast<std::size_t>(row % 8)] & 15);
  };
  of.zero = [code, zeros = parts.zeros, words](std::int64_t row, std::int64_t group) {
    return static_cast<float>(code(zeros, group, words, row));
  };
  of.codes = [code, codes = parts.codes, words, columns = of.columns](std::int64_t first, std::int64_t count,
                                                                      std::uint8_t* to) {
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t row = 0; row < count; ++row)
        to[row * columns + column] = code(codes, column, words, first + row);
  };
  return weight_of(std::move(of), std::move(parts.names));
}

namespace {

// Takes scales [rows, groups], [rows], or one; and as many zero points, if any.
Status take_scales(const Quantization& how, const StoredTensors& stored, const std::string& name,
                   Integers& of) {
  PAGODA_ASSIGN_OR_RETURN(auto scales, ScaleValues::find(stored, name));
  of.scales = std::move(scales);
  const std::vector<std::int64_t>& shape = of.scales.shape();
  if (of.scales.count() == 1) {
    of.group_size = of.columns;
    if (of.rows == 1 || how.says(ScaleShape::tensor)) return ok_status();
  }
  if (shape.empty() || shape.size() > 2 || shape[0] != of.rows || of.scales.count() == 0)
    return bad_tensor(name, "has shape ", shape_text(shape), " where the weight has ", of.rows, " rows of ",
                      of.columns);
  of.groups = shape.size() == 2 ? shape[1] : 1;
  of.by_row = of.groups;
  of.by_group = 1;
  PAGODA_ASSIGN_OR_RETURN(of.group_size, group_size_of(how, of, of.scales));
  return ok_status();
}

// Takes compressed-tensors' zero points, relative to the middle: bytes in the scales' shape, or packed along
// the rows.
Status take_zero_points(const Quantization& how, const StoredTensors& stored, const std::string& name,
                        Integers& of, std::vector<std::string>& parts) {
  const std::int32_t middle = of.bits == 8 ? 128 : 8;
  of.symmetric = !stored.contains(name);
  if (of.symmetric && all_have(how, of.bits, &WeightScheme::zero_points)) return missing(how, name);
  if (of.symmetric) {
    of.zero = [middle](std::int64_t, std::int64_t) { return static_cast<float>(middle); };
    return ok_status();
  }
  parts.push_back(name);
  const FileTensor& tensor = stored.find(name)->second;
  if (tensor.type == "I8" && tensor.elements() == of.scales.count()) {
    of.symmetric = all_bytes_are(stored_bytes(tensor), std::byte{0});
    of.zero = [tensor, middle, by_row = of.by_row, by_group = of.by_group](std::int64_t row,
                                                                           std::int64_t group) {
      const auto value = static_cast<std::int8_t>(tensor.data[row * by_row + group * by_group]);
      return static_cast<float>(value + middle);
    };
    return ok_status();
  }
  const std::int64_t in_word = 32 / of.bits, words = (of.rows + in_word - 1) / in_word;
  if (tensor.type != "I32" || tensor.shape != std::vector<std::int64_t>{words, of.groups})
    return wrong_shape(tensor, concat("which does not fit the zero points of ", of.rows, " rows in ",
                                      of.groups, of.groups == 1 ? " group" : " groups"));
  of.zero = [tensor, bits = of.bits, groups = of.groups](std::int64_t row, std::int64_t group) {
    return static_cast<float>(code_at(tensor, group, groups, bits, row));
  };
  return ok_status();
}

// True if all group indices are -1: unset.
bool is_unset(const FileTensor& indices) {
  return indices.type == "I32" && indices.bytes > 0 && all_bytes_are(stored_bytes(indices), std::byte{255});
}

// Reads a shape that is stored as a tensor.
Result<std::vector<std::int64_t>> written_shape(const StoredTensors& stored, const std::string& name) {
  PAGODA_ASSIGN_OR_RETURN(const FileTensor tensor, stored_tensor(stored, name));
  const std::int64_t each = tensor.type == "I64" ? 8 : tensor.type == "I32" ? 4 : 0;
  if (each == 0 || tensor.bytes != 2 * each) return wrong_shape(tensor, "and is no shape of a matrix");
  std::vector<std::int64_t> shape;
  for (std::int64_t i = 0; i < 2; ++i) {
    std::int64_t extent = 0;
    std::memcpy(&extent, tensor.data + i * each, static_cast<std::size_t>(each));
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace

Result<QuantizedWeight> packed_weight(const Quantization& how, const StoredTensors& stored,
                                      const FileTensor& weight) {
  const std::string name = weight.name.substr(0, weight.name.rfind("_packed"));
  PAGODA_ASSIGN_OR_RETURN(auto codes, find_part(stored, weight.name, "I32", 2));
  PAGODA_ASSIGN_OR_RETURN(const auto shape, written_shape(stored, name + "_shape"));
  Integers of{.name = name, .rows = shape[0], .columns = shape[1]};
  const std::int64_t words = codes.shape[1];
  const auto fits = [&](std::int64_t in_word) {
    return of.columns > (words - 1) * in_word && of.columns <= words * in_word;
  };
  if (of.rows != codes.shape[0] || of.rows < 1 || words < 1 || (!fits(8) && !fits(4)))
    return wrong_shape(codes, concat("where ", printable(name), "_shape says ", shape_text(shape)));
  of.bits = fits(8) && (how.says(QuantizedNumber::int4) || !fits(4)) ? 4 : 8;
  std::vector<std::string> parts = {weight.name, name + "_shape", name + "_scale"};
  PAGODA_RETURN_IF_ERROR(take_scales(how, stored, name + "_scale", of));
  PAGODA_RETURN_IF_ERROR(take_zero_points(how, stored, name + "_zero_point", of, parts));
  if (const auto indices = stored.find(name + "_g_idx"); indices != stored.end()) {
    if (is_unset(indices->second))
      parts.push_back(indices->first);
    else
      PAGODA_RETURN_IF_ERROR(read_group_indices(stored, indices->first, of, parts, how));
  }
  of.codes = [codes = std::move(codes), words, columns = of.columns, bits = of.bits](
                 std::int64_t first, std::int64_t count, std::uint8_t* to) {
    for (std::int64_t row = first; row < first + count; ++row, to += columns)
      read_codes(codes, row * words, 1, bits, columns, to);
  };
  return weight_of(std::move(of), std::move(parts));
}

Result<QuantizedWeight> int8_weight(const Quantization& how, const StoredTensors& stored,
                                    const FileTensor& weight) {
  PAGODA_ASSIGN_OR_RETURN(auto codes, find_part(stored, weight.name, "I8", 2));
  Integers of{.name = weight.name, .bits = 8, .rows = codes.shape[0], .columns = codes.shape[1]};
  std::vector<std::string> parts = {weight.name};
  const std::string module = weight.name.substr(0, weight.name.rfind(".weight"));
  const bool largest = stored.contains(module + ".SCB");  // bitsandbytes: the magnitude of code 127
  parts.push_back(largest ? module + ".SCB" : weight.name + "_scale");
  PAGODA_RETURN_IF_ERROR(take_scales(how, stored, parts.back(), of));
  if (largest) of.scales.divide_by(127);
  PAGODA_RETURN_IF_ERROR(take_zero_points(how, stored, weight.name + "_zero_point", of, parts));
  of.codes = [codes = std::move(codes), columns = of.columns](std::int64_t first, std::int64_t count,
                                                              std::uint8_t* to) {
    const std::byte* from = codes.data + first * columns;
    for (std::int64_t i = 0; i < count * columns; ++i)
      to[i] = static_cast<std::uint8_t>(std::to_integer<std::uint8_t>(from[i]) ^ 0x80);
  };
  QuantizedWeight out = weight_of(std::move(of), std::move(parts));
  if (!how.says(QuantizedNumber::int8)) out.number = QuantizedNumber::int4;  // W4A8, stored as bytes
  return out;
}

// Byte [row, column] has the 2-bit weights of rows `row`, `row` + rows, ...; codes start at -1.
Result<QuantizedWeight> ternary_weight(const Quantization& how, const StoredTensors& stored,
                                       const FileTensor& weight) {
  PAGODA_ASSIGN_OR_RETURN(auto bytes, find_part(stored, weight.name, "U8", 2));
  const std::int64_t byte_rows = bytes.shape[0];
  Integers of{.name = weight.name, .rows = 4 * byte_rows, .columns = bytes.shape[1]};
  std::vector<std::string> parts = {weight.name, weight.name + "_scale"};
  PAGODA_RETURN_IF_ERROR(take_scales(how, stored, parts.back(), of));
  if (how.inverse_scales) of.scales.invert();
  PAGODA_RETURN_IF_ERROR(take_zero_points(how, stored, weight.name + "_zero_point", of, parts));
  of.codes = [bytes = std::move(bytes), byte_rows](std::int64_t first, std::int64_t count, std::uint8_t* to) {
    const std::int64_t columns = bytes.shape[1];
    for (std::int64_t row = first; row < first + count; ++row) {
      const std::byte* const from = bytes.data + row % byte_rows * columns;
      const auto shift = static_cast<int>(row / byte_rows * 2);
      for (std::int64_t column = 0; column < columns; ++column)
        *to++ = static_cast<std::uint8_t>((std::to_integer<unsigned>(from[column]) >> shift & 3) + 7);
    }
  };
  return weight_of(std::move(of), std::move(parts));
}

}  // namespace pagoda
