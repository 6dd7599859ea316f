#pragma once
// Blocks of a launch that work for each other without waiting: who is the last one to come has what all of
// them wrote. By an atomic of PTX at the scope of the device, or what the emulated device has for it.
// Source: CUDA C++ Programming Guide, memory fence functions (threadFenceReduction).
#include "device/kernels/dialect.cuh"
#ifndef __CUDACC__
#include "device/emulated/ticket_words.h"
#endif

namespace pagoda::device::kernels {

// Whether this is the last of `count` tickets of a counter, which is 0 before the first and behind the last.
// What this thread knows is seen by who takes the last one.
__device__ __forceinline__ bool take_ticket(std::uint32_t* counter, std::uint32_t count) {
#ifndef __CUDACC__
  return emulated::take_ticket(counter, count);
#else
  std::uint32_t before;  // `inc` begins anew at 0 behind count - 1
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(count - 1)
               : "memory");
  return before == count - 1;
#endif
}

// Whether this block is the last of `count` to come here: then its threads see what all of them wrote to
// memory in front of it. All threads of the block call it.
__device__ __forceinline__ bool is_last_block(std::uint32_t* counter, std::uint32_t count) {
  __syncthreads();
  const bool last = threadIdx.x == 0 && (count == 1 || take_ticket(counter, count));
  return __syncthreads_count(last ? 1 : 0) != 0;
}

}  // namespace pagoda::device::kernels
