#pragma once
// The device's clock as a kernel between others sees it.
#include "device/kernels/rank_words.cuh"

namespace pagoda::device::kernels {

// One warp.
__global__ void note_time(NoteTimeArgs args) {
  begin_kernel();
  if (threadIdx.x == 0) *args.time = nanoseconds();
}

}  // namespace pagoda::device::kernels
