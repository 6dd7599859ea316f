#pragma once
// The functions between the two matrices of an MLP; linear applies them on its products' way out.

namespace pagoda {

enum class Activation { silu, gelu_tanh, gelu_erf, relu };

}  // namespace pagoda
