#pragma once
// Cooperation of a launch's blocks without waiting: the last block to arrive sees what all of them wrote. By
// a PTX atomic at device scope; the emulated device has its own version. Source: CUDA C++ Programming Guide,
// memory fence functions (threadFenceReduction).
#include "device/kernels/dialect.cuh"
#ifndef __CUDACC__
#include "device/emulated/ticket_words.h"
#endif

namespace pagoda::device::kernels {

// True if this is the last of `count` tickets of a counter, which is 0 before the first and after the last.
// Everything visible to this thread is visible to the thread that takes the last ticket.
__device__ __forceinline__ bool take_ticket(std::uint32_t* counter, std::uint32_t count) {
#ifndef __CUDACC__
  return emulated::take_ticket(counter, count);
#else
  std::uint32_t before;  // `inc` wraps to 0 after count - 1
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(count - 1)
               : "memory");
  return before == count - 1;
#endif
}

// True if this block is the last of `count` to arrive: its threads then see what all of them wrote to memory
// before. Called by all threads of the block.
__device__ __forceinline__ bool is_last_block(std::uint32_t* counter, std::uint32_t count) {
  __syncthreads();
  const bool last = threadIdx.x == 0 && (count == 1 || take_ticket(counter, count));
  return __syncthreads_count(last ? 1 : 0) != 0;
}

}  // namespace pagoda::device::kernels
