#pragma once
// Records the device's clock in a kernel between other kernels.
#include "device/kernels/rank_words.cuh"

namespace pagoda::device::kernels {

// One warp.
__global__ void note_time(NoteTimeArgs args) {
  begin_kernel();
  if (threadIdx.x == 0) *args.time = nanoseconds();
}

}  // namespace pagoda::device::kernels
