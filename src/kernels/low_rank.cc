#include "kernels/low_rank.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/half_floats.h"

namespace pagoda {

void LowRank::put(std::vector<std::byte>& to, std::size_t at, float value) const {
  if (type_ == Type::float32) {
    std::memcpy(to.data() + at * 4, &value, 4);
    return;
  }
  const std::uint16_t bits = float_to_bfloat16(value);
  std::memcpy(to.data() + at * 2, &bits, 2);
}

float LowRank::value(const std::vector<std::byte>& of, std::size_t at) const {
  if (type_ == Type::float32) {
    float value;
    std::memcpy(&value, of.data() + at * 4, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, of.data() + at * 2, 2);
  return bfloat16_to_float(bits);
}

void LowRank::reserve(std::int64_t right_bytes, std::int64_t left_bytes) {
  right_.reserve(static_cast<std::size_t>(right_bytes));
  left_.reserve(static_cast<std::size_t>(left_bytes));
}

std::int32_t LowRank::add_right(std::span<const float> values) {
  const auto k = static_cast<std::size_t>(k_), wide = static_cast<std::size_t>(padded_k());
  CHECK(k > 0 && !values.empty() && values.size() % k == 0);
  const std::size_t rows = values.size() / k, before = static_cast<std::size_t>(rank_);
  right_.resize((before + rows) * wide * static_cast<std::size_t>(element_bytes()));
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < k; ++i) put(right_, (before + row) * wide + i, values[row * k + i]);
  rank_ += static_cast<std::int32_t>(rows);
  return static_cast<std::int32_t>(before);
}

void LowRank::add_left(std::int64_t first_output, std::int32_t first_rank, std::int32_t rank,
                       std::span<const float> values, float scale) {
  const auto ranks = static_cast<std::size_t>(rank);
  CHECK(rank > 0 && first_rank >= 0 && first_rank + rank <= rank_ && values.size() % ranks == 0);
  const std::size_t outputs = values.size() / ranks, strips = (outputs + kStrip - 1) / kStrip;
  Piece piece = {.first_output = first_output,
                 .outputs = static_cast<std::int64_t>(outputs),
                 .first_rank = first_rank,
                 .rank = rank,
                 .scale = scale,
                 .offset = left_.size()};
  const std::size_t begin = piece.offset / static_cast<std::size_t>(element_bytes());
  left_.resize(left_.size() + strips * ranks * kStrip * static_cast<std::size_t>(element_bytes()));
  for (std::size_t output = 0; output < outputs; ++output)
    for (std::size_t r = 0; r < ranks; ++r)
      put(left_, begin + (output / kStrip * ranks + r) * kStrip + output % kStrip,
          values[output * ranks + r]);
  pieces_.push_back(piece);
}

float LowRank::right_value(std::int32_t row, std::int64_t input) const {
  return value(right_, static_cast<std::size_t>(row * padded_k() + input));
}

float LowRank::left_value(const Piece& piece, std::int64_t output, std::int32_t rank) const {
  const std::size_t begin = piece.offset / static_cast<std::size_t>(element_bytes());
  return value(left_, begin + static_cast<std::size_t>((output / kStrip * piece.rank + rank) * kStrip +
                                                       output % kStrip));
}

bool any_adapter(RowAdapters adapters, std::int64_t num_rows, std::initializer_list<std::int32_t> slots) {
  if (adapters == nullptr) return false;
  return std::any_of(adapters, adapters + num_rows, [&](const AdapterFactors* own) {
    return own != nullptr &&
           std::ranges::any_of(slots, [&](std::int32_t slot) { return own->of(slot) != nullptr; });
  });
}

}  // namespace pagoda
