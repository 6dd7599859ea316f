#pragma once
// Integers: a weight of integers with a scale, and a zero point or a minimum, for a group of a row's
// neighbours: w = scale * (code - zero) + minimum, codes counted from 0. What makes a QuantizedWeight of one,
// whichever package stored it. Not for readers of weights: quantized_weight.h.
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "loader/quantized_weight.h"

namespace pagoda {

inline std::uint32_t word_at(const FileTensor& tensor, std::int64_t index) {
  std::uint32_t word;
  std::memcpy(&word, tensor.data + index * 4, sizeof word);
  return word;
}

// `count` codes that lie one after the other from the lowest bits of words on, from word `first` of `tensor`
// and each `step` further; a code may begin in one word and end in the next.
void read_codes(const FileTensor& tensor, std::int64_t first, std::int64_t step, std::int32_t bits,
                std::int64_t count, std::uint8_t* to);
// One of them.
std::uint32_t code_at(const FileTensor& tensor, std::int64_t first, std::int64_t step, std::int32_t bits,
                      std::int64_t index);

// Indices of scales, minima and zero points are row * by_row + group * by_group.
struct Integers {
  std::string name;
  std::int32_t bits = 4;
  std::int64_t rows = 0, columns = 0, groups = 1, group_size = 0;
  std::vector<std::int64_t> shape = {};  // stacked matrices have one, `rows` in all
  // Codes of rows first, ..., `count` of them, each of `columns`.
  std::function<void(std::int64_t first, std::int64_t count, std::uint8_t* codes)> codes = {};
  ScaleValues scales = {};
  std::int64_t by_row = 0, by_group = 0;
  std::function<float(std::int64_t row, std::int64_t group)> zero = {};  // none: 0
  std::optional<ScaleValues> minima = {};                                // none: 0
  std::vector<std::int32_t> group_of_column = {};                        // empty: neighbours share a group
  bool symmetric = false;                                                // all zeros are in the middle

  std::int64_t group_of(std::int64_t column) const {
    return group_of_column.empty() ? column / group_size : group_of_column[static_cast<std::size_t>(column)];
  }
};

QuantizedWeight weight_of(Integers of, std::vector<std::string> parts);

}  // namespace pagoda
