#pragma once
// LinearArithmetic: how a linear layer converts each row of its input before multiplying. A checkpoint whose
// scheme quantises activations specifies it, so that products equal the scheme's; otherwise the type of the
// packed weights decides.
// Source: compressed-tensors' input_activations, vLLM's scaled_int8_quant, scaled_fp8_quant and
// per_token_group_quant_fp8.
#include <cstdint>
#include <string>

namespace pagoda {

enum class InputNumber : std::uint8_t {
  own,   // chosen by the weights' type: int8 per 32 inputs, bfloat16, or none
  int8,  // -128..127
  e4m3,  // 8-bit floats without infinities, at most 448
};

// The inputs that share a scale.
enum class InputScale : std::uint8_t { row, group, fixed };

struct LinearArithmetic {
  InputNumber number = InputNumber::own;
  InputScale scales = InputScale::row;
  std::int32_t group = 0;  // inputs per group, a multiple of 64
  float scale = 0;         // for InputScale::fixed
  float largest = 0;       // for InputScale::row: larger magnitudes are clamped to it; 0: no clamping

  bool is_own() const { return number == InputNumber::own; }
  // True if no part of a row can be prepared before the whole row is known.
  bool needs_whole_rows() const { return !is_own() && scales != InputScale::fixed; }
  // True if a row's products are finally multiplied by a single number.
  bool scales_rows() const { return !is_own() && scales != InputScale::group; }
  bool operator==(const LinearArithmetic&) const = default;
};

// "int8 by token", "e4m3 in groups of 128", "int8 with fixed scales"; empty: own.
std::string linear_arithmetic_text(const LinearArithmetic& arithmetic);

}  // namespace pagoda
