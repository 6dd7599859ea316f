#pragma once
// Converts rows of weights to the forms of a device's matrices: widened to one element type, or with the
// quantised numbers of their file (Quantized4 and others in device/kernels/stored_layouts.h). Threads: any.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "device/kernel_launches.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// The element type in which a matrix that stacks all of these keeps the numbers of its file: q4_k for Q4_K,
// q5_k for Q5_K, q6_k for Q6_K, q8 for Q8_0, q4 for Q4_0, Q4_1 and mixtures of 4-bit types; for 8-bit floats
// fp8 if every row has one scale, and fp8_blocks if each 128 of its columns have one, for which it reads all
// scales; mxfp4 for MXFP4; nvfp4 for NVFP4 of files and of folders. nullopt: it must be widened.
std::optional<device::Element> quantized_element(std::span<const TensorView> views);

// Writes row `row` of `view`, KernelLaunches::row_bytes() bytes, to `out`, which is aligned for floats. A
// quantised `element` must be the result of quantized_element().
void write_row(device::Element element, const TensorView& view, std::int64_t row, std::byte* out);

}  // namespace pagoda
