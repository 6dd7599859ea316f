#pragma once
// Integers: a weight of integers with a scale, and a zero point or a minimum, per group of neighbours in a
// row: w = scale * (code - zero) + minimum, codes counted from 0. The common form from which a
// QuantizedWeight is made, whatever package stored it. Readers of weights use quantized_weight.h instead.
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

// Reads `count` consecutive codes, packed from the lowest bits of words on, from word `first` of `tensor` in
// steps of `step` words. A code may span two words.
void read_codes(const FileTensor& tensor, std::int64_t first, std::int64_t step, std::int32_t bits,
                std::int64_t count, std::uint8_t* to);
// Returns a single code.
std::uint32_t code_at(const FileTensor& tensor, std::int64_t first, std::int64_t step, std::int32_t bits,
                      std::int64_t index);

// Scales, minima and zero points are indexed by row * by_row + group * by_group.
struct Integers {
  std::string name;
  std::int32_t bits = 4;
  std::int64_t rows = 0, columns = 0, groups = 1, group_size = 0;
  std::vector<std::int64_t> shape = {};  // stacked matrices have `rows` in total
  // Reads the codes of `count` rows from `first` on, `columns` per row.
  std::function<void(std::int64_t first, std::int64_t count, std::uint8_t* codes)> codes = {};
  ScaleValues scales = {};
  std::int64_t by_row = 0, by_group = 0;
  std::function<float(std::int64_t row, std::int64_t group)> zero = {};  // empty: 0
  std::optional<ScaleValues> minima = {};                                // nullopt: 0
  std::vector<std::int32_t> group_of_column = {};                        // empty: groups are contiguous
  bool symmetric = false;                                                // all zero points are in the middle

  std::int64_t group_of(std::int64_t column) const {
    return group_of_column.empty() ? column / group_size : group_of_column[static_cast<std::size_t>(column)];
  }
};

QuantizedWeight weight_of(Integers of, std::vector<std::string> parts);

}  // namespace pagoda
