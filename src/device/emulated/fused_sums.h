#pragma once
// Sums of emulated tensor cores: each product of two bfloat16 numbers is fused into the sum.
#include <span>

namespace pagoda::device::emulated {

// `sum` and the products of a's and b's numbers, ascending, each rounded once with the sum. a and b: as long,
// of numbers that bfloat16 has.
float add_products(float sum, std::span<const float> a, std::span<const float> b);

}  // namespace pagoda::device::emulated
