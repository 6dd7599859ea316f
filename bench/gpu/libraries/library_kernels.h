#pragma once
// Kernels of other libraries, to compare single kernels with in the benchmarks of this folder: products by
// CUTLASS and attention by FlashInfer, for compute capability 9.0. Not in any serving program: their order of
// sums is their own. Only in builds with -DPAGODA_CUDA_LIBRARIES=ON (script/cuda-libraries); others have
// none. Compiled, but not yet run on a GPU. All launches use the default stream, for which other streams do
// not wait: call synchronize() in between. Memory is CUDA's. Sources: CUTLASS 4 (examples 48, 55 and 67),
// FlashInfer 0.7 (csrc/batch_decode.cu, batch_prefill_sm90.cu). Threads: one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace pagoda::device {

// A planned call: run() only launches.
class LibraryLaunch {
 public:
  virtual ~LibraryLaunch() = default;
  virtual Status run() = 0;
};
using Planned = Result<std::unique_ptr<LibraryLaunch>>;

// y [rows, n], f32 = x [rows, k] * weight [n, k]^T, both in the form's type.
struct LibraryProduct {
  const void *x = nullptr, *weight = nullptr;
  float* y = nullptr;
  std::int32_t rows = 0, n = 0, k = 0;
};
struct ProductKernel {
  const char* name;     // tile of rows or of n, and of k
  const char* weights;  // as products_bench names them
  Planned (*plan)(const LibraryProduct&);
};

// Attention of heads of 128 over blocks [2, kv_heads, block_size, 128] of bfloat16, which begin at multiples
// of block_elements: decode of the last of `context` tokens of each sequence, or of all of them, causal. q
// has rows of q_stride elements; out is [rows, heads, 128]; both bfloat16.
struct LibraryAttention {
  const void *q = nullptr, *cache = nullptr;
  void* out = nullptr;
  std::int64_t block_elements = 0;
  std::int32_t q_stride = 0, block_size = 0, heads = 0, kv_heads = 0, sequences = 0, context = 0;
  float scale = 1;
  std::vector<std::int32_t> table;  // [sequences, blocks]
};

#ifdef PAGODA_CUDA_LIBRARIES
std::span<const ProductKernel> cutlass_products();
Planned flashinfer_decode(const LibraryAttention& args);
Planned flashinfer_prefill(const LibraryAttention& args);
Status synchronize_libraries();
#else
inline std::span<const ProductKernel> cutlass_products() { return {}; }
inline Planned flashinfer_decode(const LibraryAttention&) { return unimplemented("built without it"); }
inline Planned flashinfer_prefill(const LibraryAttention&) { return unimplemented("built without it"); }
inline Status synchronize_libraries() { return ok_status(); }
#endif
inline constexpr bool kHasLibraries =
#ifdef PAGODA_CUDA_LIBRARIES
    true;
#else
    false;
#endif

}  // namespace pagoda::device
