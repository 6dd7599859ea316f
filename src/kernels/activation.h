#pragma once
// The functions between the two matrices of an MLP; linear applies them on its products' way out.
#include <cmath>

namespace pagoda {

// relu2: the square of relu. clamped_silu, of gate and up: with both cut off at 7 (gate from above alone),
// gate * sigmoid(1.702 gate) * (up + 1); of one matrix: without the last factor. Source: gpt-oss.
enum class Activation { silu, gelu_tanh, gelu_erf, relu, relu2, clamped_silu };

inline float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace pagoda
