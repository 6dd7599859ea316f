#pragma once
// Memory of the CUDA runtime that is freed with its owner, and CUDA errors as Status.
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace pagoda::device {

inline Status cuda_status(cudaError_t error, const char* call) {
  return error == cudaSuccess ? ok_status()
                              : internal_error(std::string(call) + ": " + cudaGetErrorString(error));
}

struct FreeCuda {
  void operator()(void* memory) const { cudaFree(memory); }
};
struct FreePinned {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
using CudaMemory = std::unique_ptr<void, FreeCuda>;
using PinnedMemory = std::unique_ptr<void, FreePinned>;

// Null for zero bytes, and if out of memory.
inline CudaMemory cuda_memory(std::size_t bytes) {
  void* memory = nullptr;
  return CudaMemory(bytes > 0 && cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr);
}

}  // namespace pagoda::device
