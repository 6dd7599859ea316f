#pragma once
// Block tables and workspaces in the form that FlashInfer's planners and kernels need.
#include <exception>
#include <vector>

#include "cuda_memory.cuh"
#include "library_kernels.h"

namespace pagoda::device {

inline constexpr int kHead = 128;
inline constexpr std::size_t kFloatBytes = std::size_t{128} << 20, kNumberBytes = std::size_t{16} << 20;

struct FlashInferTables {
  CudaMemory floats, numbers, indices;
  PinnedMemory pinned;
  // A sequence's blocks begin at `starts` in `blocks`; `starts` has one more entry. `last`: tokens in its
  // last block.
  std::vector<std::int32_t> starts_here;
  std::int32_t *starts = nullptr, *last = nullptr, *blocks = nullptr;

  Status put(const LibraryAttention& args) {
    const std::int32_t width = (args.context + args.block_size - 1) / args.block_size;
    for (std::int32_t i = 0; i <= args.sequences; ++i) starts_here.push_back(i * width);
    std::vector<std::int32_t> all = starts_here;
    all.insert(all.end(), static_cast<std::size_t>(args.sequences), (args.context - 1) % args.block_size + 1);
    all.insert(all.end(), args.table.begin(), args.table.end());
    floats = cuda_memory(kFloatBytes);
    numbers = cuda_memory(kNumberBytes);
    indices = cuda_memory(all.size() * sizeof(std::int32_t));
    void* host = nullptr;
    PAGODA_RETURN_IF_ERROR(cuda_status(cudaMallocHost(&host, kNumberBytes), "cudaMallocHost"));
    pinned.reset(host);
    if (floats == nullptr || numbers == nullptr || indices == nullptr)
      return resource_exhausted("no memory for FlashInfer");
    starts = static_cast<std::int32_t*>(indices.get());
    last = starts + args.sequences + 1;
    blocks = last + args.sequences;
    return cuda_status(
        cudaMemcpy(indices.get(), all.data(), all.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }
  std::int32_t* at(std::int64_t offset) const {
    return reinterpret_cast<std::int32_t*>(static_cast<char*>(numbers.get()) + offset);
  }
};

// Converts exceptions of the library to an error.
template <class Launch>
Planned planned(const LibraryAttention& args) {
  try {
    auto launch = std::make_unique<Launch>();
    PAGODA_RETURN_IF_ERROR(launch->plan(args));
    return std::unique_ptr<LibraryLaunch>(std::move(launch));
  } catch (const std::exception& error) {
    return internal_error(error.what());
  }
}

}  // namespace pagoda::device
