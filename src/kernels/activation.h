#pragma once
// Activation functions between the two matrices of an MLP; linear applies them to its outputs.
#include <cmath>

namespace pagoda {

// relu2: the square of relu. clamped_silu, of gate and up: clamps both to 7 (the gate only from above), then
// gate * sigmoid(1.702 gate) * (up + 1); with a single matrix, without the last factor. Source: gpt-oss.
enum class Activation { silu, gelu_tanh, gelu_erf, relu, relu2, clamped_silu };

inline float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace pagoda
