#pragma once
// CublasLt: products of bfloat16 matrices by NVIDIA's library, which is opened on demand: the program is
// built and started without it. The order of an element's sum may depend on the number of rows, so that a
// token's bits depend on its batch. Callers that need the same bits always use the project's own kernel
// (kernels/linear.cuh). Not here: memory and streams (cuda_device.h). Needs no CUDA headers. Tested against a
// fake library; run on an H200 with version 13.1 (docs/devices.md). Source: cuBLAS documentation, "Using the
// cuBLASLt API". Threads: one caller. Owner: the CUDA device.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "device/device.h"

namespace pagoda::device {

class CublasLt {
 public:
  // unavailable: no library with one of these names exists, or it lacks some of the calls; internal: it
  // cannot be initialised. `names`: for tests; the default is the system's libcublasLt.so.13 and .12.
  static Result<std::unique_ptr<CublasLt>> open(std::span<const char* const> names = {});
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // One line with the library that would be used, or why there is none. Needs no GPU.
  static std::string describe(std::span<const char* const> names = {});

  // Enqueues the product on `stream`, a cudaStream_t. `workspace`: device memory, used by one product at a
  // time. The library's choice for a shape is cached. internal: names the call and its result.
  Status multiply(void* stream, const ProductArgs& args, std::byte* workspace, std::size_t workspace_bytes);

 private:
  struct Library;
  struct Plan;
  using Shape =
      std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>;  // rows, n, k, and whether a bias is added

  CublasLt();
  static Result<std::unique_ptr<Library>> look_up(std::span<const char* const> names);
  Result<Plan*> plan_for(const ProductArgs& args, std::size_t workspace_bytes);
  Status check(int status, const char* call) const;

  std::unique_ptr<Library> library_;
  void* handle_ = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace pagoda::device
