#pragma once
// The functions between the two matrices of an MLP; linear applies them on its products' way out.

namespace pagoda {

// relu2: the square of relu.
enum class Activation { silu, gelu_tanh, gelu_erf, relu, relu2 };

}  // namespace pagoda
