#pragma once
// CublasLt: products of bfloat16 matrices by NVIDIA's library, which is opened when it is asked for: the
// program is built and started without it. An element's sum may be taken in another order for another number
// of rows, so that a token's bits depend on its batch: who wants the same bits always has the own kernel
// (kernels/linear.cuh). Not here: memory and streams (cuda_device.h). Needs no header of CUDA's.
// Held against a fake library in its test; run on an H200 with version 13.1 (docs/devices.md).
// Source: cuBLAS documentation, "Using the cuBLASLt API". Threads: one caller. Owner: the CUDA device.
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
  // unavailable: no library of these names is there, or one that has not all of the calls; internal: it
  // cannot begin. `names`: for tests; what is opened otherwise are the system's libcublasLt.so.13 and .12.
  static Result<std::unique_ptr<CublasLt>> open(std::span<const char* const> names = {});
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Which library would be used, in one line; or why none. Needs no GPU.
  static std::string describe(std::span<const char* const> names = {});

  // Enqueues the product into `stream`, a cudaStream_t. `workspace`: of device memory, which one product at a
  // time uses. What the library chooses for a shape is kept. internal: names the call and what it answered.
  Status multiply(void* stream, const ProductArgs& args, std::byte* workspace, std::size_t workspace_bytes);

 private:
  struct Library;
  struct Plan;
  using Shape =
      std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>;  // rows, n, k, and a bias is added

  CublasLt();
  static Result<std::unique_ptr<Library>> look_up(std::span<const char* const> names);
  Result<Plan*> plan_for(const ProductArgs& args, std::size_t workspace_bytes);
  Status check(int status, const char* call) const;

  std::unique_ptr<Library> library_;
  void* handle_ = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace pagoda::device
