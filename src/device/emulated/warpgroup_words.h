#pragma once
// The PTX instructions of kernels/warpgroup_words.cuh on the emulated device; rules: warpgroup_products.h,
// cluster_copies.h. Threads: those of the running block.
#include <cstddef>
#include <cstdint>

namespace pagoda::device::emulated {

void show_writes();
void fence_products(float* sums, std::size_t count);
void multiply_warpgroup(float* sums, std::uint32_t columns, bool adds, const void* a, const void* b);
void multiply_warpgroup(float* sums, std::uint32_t columns, bool adds, const std::uint32_t (&a)[4],
                        const void* b, std::size_t apart);
void multiply_warpgroup_floats8(float* sums, std::uint32_t columns, bool adds, const void* a, const void* b);
void commit_products();
void wait_for_products(std::size_t groups_left);

}  // namespace pagoda::device::emulated
