#pragma once
// Sums of emulated tensor cores: each product of two bfloat16 numbers is fused into the sum.
#include <span>

namespace pagoda::device::emulated {

// `sum` plus the products of a's and b's numbers, ascending, each rounded once with the sum. a and b have
// equal lengths, and their numbers are exact in bfloat16.
float add_products(float sum, std::span<const float> a, std::span<const float> b);

}  // namespace pagoda::device::emulated
