#pragma once
// LinearArithmetic: what a linear layer makes of each row of its input before it multiplies. A checkpoint
// whose scheme quantises activations names one, so that its products are the scheme's own; else the packed
// weights' type decides alone. Source: compressed-tensors' input_activations, vLLM's scaled_int8_quant,
// scaled_fp8_quant and per_token_group_quant_fp8.
#include <cstdint>
#include <string>

namespace pagoda {

enum class InputNumber : std::uint8_t {
  own,   // as the type of the weights asks: int8 by 32 inputs, bfloat16, or none
  int8,  // -128..127
  e4m3,  // 8-bit floats without infinities, at most 448
};

// Inputs that share a scale.
enum class InputScale : std::uint8_t { row, group, fixed };

struct LinearArithmetic {
  InputNumber number = InputNumber::own;
  InputScale scales = InputScale::row;
  std::int32_t group = 0;  // inputs of a group, a multiple of 64
  float scale = 0;         // InputScale::fixed
  float largest = 0;       // InputScale::row: magnitudes above it count as it; 0: none do

  bool is_own() const { return number == InputNumber::own; }
  // Whether a part of a row cannot be prepared before all of the row is known.
  bool needs_whole_rows() const { return !is_own() && scales != InputScale::fixed; }
  // Whether a row's products are multiplied by one number at their end.
  bool scales_rows() const { return !is_own() && scales != InputScale::group; }
  bool operator==(const LinearArithmetic&) const = default;
};

// "int8 by token", "e4m3 in groups of 128", "int8 with fixed scales"; empty: own.
std::string linear_arithmetic_text(const LinearArithmetic& arithmetic);

}  // namespace pagoda
