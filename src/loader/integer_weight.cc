#include "loader/integer_weight.h"

#include <cmath>

#include "base/assign_or_return.h"
#include "tensor/half_floats.h"

namespace pagoda {
namespace {

// True if every block of 32 neighbours has a single scale.
bool in_whole_blocks(const Integers& of) {
  return of.group_of_column.empty() && of.columns % 32 == 0 && (of.groups == 1 || of.group_size % 32 == 0);
}

// Returns the type of blocks that hold the codes themselves.
DType blocks_of(const Integers& of) {
  if (!in_whole_blocks(of)) return DType::f32;
  if (of.bits <= 4) return DType::int4;
  // The type's scale and minimum have 16 bits, too.
  if (of.bits == 5 && of.scales.has_16_bits() && (!of.minima || of.minima->has_16_bits())) return DType::q5_1;
  return of.bits == 8 && of.symmetric ? DType::int8 : DType::int8m;
}

// Returns false if scale or minimum exceeds half precision.
bool put_5_bits(const std::uint8_t* codes, float scale, float minimum, std::byte* to) {
  constexpr float kMost = 65504;
  const std::uint16_t halves[] = {float_to_half(scale), float_to_half(minimum)};
  std::memcpy(to, halves, sizeof halves);
  std::uint32_t fifth = 0;
  for (int i = 0; i < 32; ++i) fifth |= (codes[i] >> 4 & 1u) << i;
  std::memcpy(to + 4, &fifth, sizeof fifth);
  for (int i = 0; i < 16; ++i)
    to[8 + i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
  return std::fabs(scale) <= kMost && std::fabs(minimum) <= kMost;
}

// Writes scale and minimum, or only the scale, before 32 codes.
std::byte* put_block(DType dtype, const std::uint8_t* codes, float scale, float minimum, std::byte* to) {
  std::memcpy(to, &scale, sizeof scale);
  to += sizeof scale;
  if (dtype == DType::int8) {
    for (int i = 0; i < 32; ++i) *to++ = static_cast<std::byte>(codes[i] ^ 0x80);
    return to;
  }
  std::memcpy(to, &minimum, sizeof minimum);
  to += sizeof minimum;
  if (dtype == DType::int8m) {
    std::memcpy(to, codes, 32);
    return to + 32;
  }
  for (int i = 0; i < 16; ++i) *to++ = static_cast<std::byte>(codes[i] | codes[i + 16] << 4);
  return to;
}

Status decode_integers(const Integers& of, DType dtype, std::int64_t first, std::int64_t count,
                       std::byte* to) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * of.columns));
  std::vector<float> scale(static_cast<std::size_t>(of.groups)), zero(scale.size()), minimum(scale.size());
  of.codes(first, count, codes.data());
  for (std::int64_t row = first; row < first + count; ++row) {
    const std::uint8_t* own = codes.data() + (row - first) * of.columns;
    for (std::int64_t group = 0; group < of.groups; ++group) {
      const auto at = static_cast<std::size_t>(group);
      const std::int64_t place = row * of.by_row + group * of.by_group;
      PAGODA_RETURN_IF_ERROR(of.scales.read(place, scale[at]));
      if (of.minima) PAGODA_RETURN_IF_ERROR(of.minima->read(place, minimum[at]));
      if (of.zero) zero[at] = of.zero(row, group);
    }
    if (dtype == DType::f32) {
      for (std::int64_t column = 0; column < of.columns; ++column) {
        const auto group = static_cast<std::size_t>(of.group_of(column));
        const float value = scale[group] * (static_cast<float>(own[column]) - zero[group]) + minimum[group];
        std::memcpy(to, &value, sizeof value);
        to += sizeof value;
      }
      continue;
    }
    for (std::int64_t column = 0; column < of.columns; column += 32) {
      const auto group = static_cast<std::size_t>(of.group_of(column));
      const float least = minimum[group] - scale[group] * zero[group];
      if (dtype != DType::q5_1) {
        to = put_block(dtype, own + column, scale[group], least, to);
        continue;
      }
      if (!put_5_bits(own + column, scale[group], least, to))
        return bad_tensor(of.scales.name(), "has a scale beyond half precision");
      to += dtype_info(dtype).block_bytes;
    }
  }
  return ok_status();
}

}  // namespace

void read_codes(const FileTensor& tensor, std::int64_t first, std::int64_t step, std::int32_t bits,
                std::int64_t count, std::uint8_t* to) {
  std::uint64_t held = 0;
  std::int32_t held_bits = 0;
  for (std::int64_t i = 0; i < count; ++i, held >>= bits, held_bits -= bits) {
    if (held_bits < bits) {
      held |= std::uint64_t{word_at(tensor, first)} << held_bits;
      held_bits += 32;
      first += step;
    }
    to[i] = static_cast<std::uint8_t>(held & ((1u << bits) - 1));
  }
}

std::uint32_t code_at(const FileTensor& tensor, std::int64_t first, std::int64_t step, std::int32_t bits,
                      std::int64_t index) {
  const std::int64_t word = index * bits / 32, shift = index * bits % 32;
  std::uint64_t held = word_at(tensor, first + word * step);
  if (shift + bits > 32) held |= std::uint64_t{word_at(tensor, first + (word + 1) * step)} << 32;
  return static_cast<std::uint32_t>(held >> shift) & ((1u << bits) - 1);
}

QuantizedWeight weight_of(Integers of, std::vector<std::string> parts) {
  QuantizedWeight out{.number = integer_of(of.bits).value_or(QuantizedNumber::int8),
                      .scales = of.groups > 1    ? ScaleShape::group
                                : of.by_row == 0 ? ScaleShape::tensor
                                                 : ScaleShape::channel,
                      .dtype = blocks_of(of),
                      .shape = of.shape,
                      .parts = std::move(parts)};
  if (out.shape.empty()) out.shape = {of.rows, of.columns};
  out.decode = [of = std::move(of), dtype = out.dtype](std::int64_t first, std::int64_t count,
                                                       std::byte* to) {
    return decode_integers(of, dtype, first, count, to);
  };
  return out;
}

}  // namespace pagoda
