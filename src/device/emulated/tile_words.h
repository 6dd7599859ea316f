#pragma once
// The PTX instructions of kernels/tile_words.cuh on the emulated device: asynchronous copies into shared
// memory and the warp's operations on 8x8 and 16x8 matrices of bfloat16, with the fragment layouts documented
// in the PTX ISA ("Matrix Fragments for mma.m16n8k16", "ldmatrix"). Sums of products are in f32, k ascending;
// hardware has its own order. Threads: those of the running block.
#include <cstddef>
#include <cstdint>

namespace pagoda::device::emulated {

void copy_async(void* to, const void* from, std::size_t taken);
void copies_commit();
void copies_wait(std::size_t groups_left);

// Copies `size` bytes in one access, at a multiple of `size`; the other side is the thread's own memory.
void load_whole(void* to, const void* from, std::size_t size);
void store_whole(void* to, const void* from, std::size_t size);

// Four matrices of 8 rows of 8: lane i gives the address of row i % 8 of matrix i / 8. For each matrix m,
// out[m] of a lane receives elements 2 * (lane % 4) and the next of row lane / 4; transposed: of column lane
// / 4.
void load_matrices(const void* row, bool transposed, std::uint32_t (&out)[4]);

// sums (16 x 8) += a (16 x 16) * b (16 x 8)
void multiply_matrices(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

}  // namespace pagoda::device::emulated
