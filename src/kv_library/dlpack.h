#pragma once
// The binary format in which array libraries exchange tensors: the structures of dlpack.h in DLPack 1.0,
// unversioned and versioned. Source: https://dmlc.github.io/dlpack/latest/c_api.html.
#include <cstdint>

namespace pagoda::dlpack {

inline constexpr std::int32_t kCpu = 1, kCuda = 2;

struct Device {
  std::int32_t type = kCpu, id = 0;
};
struct ElementType {
  std::uint8_t code = 0, bits = 0;
  std::uint16_t lanes = 1;
};
struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t ndim = 0;
  ElementType type;
  std::int64_t *shape = nullptr, *strides = nullptr;  // in elements
  std::uint64_t byte_offset = 0;
};

// The consumer owns the tensor and must call deleter exactly once, from any thread.
struct ManagedTensor {
  Tensor tensor;
  void* context = nullptr;
  void (*deleter)(ManagedTensor* self) = nullptr;
};
struct VersionedTensor {
  std::uint32_t major = 1, minor = 0;
  void* context = nullptr;
  void (*deleter)(VersionedTensor* self) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};
static_assert(sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64 && sizeof(VersionedTensor) == 80);

}  // namespace pagoda::dlpack
