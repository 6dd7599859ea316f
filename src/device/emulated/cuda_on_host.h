#pragma once
// The words of CUDA C++ that kernels (../kernels/) use, for the host's compiler. A kernel's thread is a fiber
// of BlockRunner, which these functions ask for the running thread. Include only through kernels/dialect.cuh:
// it defines macros with short names. The subset: whole warps with full masks; shared memory whose size is
// set by the launch (PAGODA_SHARED); atomics of 32 and 64 bits; no local static, no virtual call, no memcpy.
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "device/device.h"

// Internal linkage; otherwise a program with device code would use nvcc's launchers instead, which have the
// same names.
#define __global__ static inline
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define threadIdx (::pagoda::device::emulated::thread_index())
#define blockIdx (::pagoda::device::emulated::block_index())
#define blockDim (::pagoda::device::emulated::block_size())
#define gridDim (::pagoda::device::emulated::grid_size())
#define PAGODA_SHARED(type, name) \
  type* const name = static_cast<type*>(::pagoda::device::emulated::shared_memory())
#define PAGODA_SWIZZLED_SHARED(type, name) PAGODA_SHARED(type, name)

namespace pagoda::device::emulated {

Dim3 thread_index();
Dim3 block_index();
Dim3 block_size();
Dim3 grid_size();
void* shared_memory();
void wait_for_earlier();
void block_barrier();
std::uint32_t block_count(bool vote);
std::uint64_t from_lane(std::uint32_t mask, std::uint64_t value, std::uint32_t lane);
std::uint64_t from_lane_xor(std::uint32_t mask, std::uint64_t value, std::uint32_t other);
std::uint64_t from_lane_up(std::uint32_t mask, std::uint64_t value, std::uint32_t distance);
std::uint32_t ballot(std::uint32_t mask, bool vote);
std::uint32_t atomic_add(std::uint32_t* address, std::uint32_t value);
unsigned long long atomic_add(unsigned long long* address, unsigned long long value);
std::uint32_t atomic_or(std::uint32_t* address, std::uint32_t value);
std::uint32_t atomic_max(std::uint32_t* address, std::uint32_t value);

template <class T>
std::uint64_t to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return std::bit_cast<std::uint64_t>(value);
}
template <class T>
T of_bits(std::uint64_t bits) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<T>(static_cast<std::uint32_t>(bits));
  else
    return std::bit_cast<T>(bits);
}

}  // namespace pagoda::device::emulated

inline void __syncthreads() { ::pagoda::device::emulated::block_barrier(); }
inline int __syncthreads_count(int vote) {
  return static_cast<int>(::pagoda::device::emulated::block_count(vote != 0));
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { ::pagoda::device::emulated::from_lane(mask, 0, 0); }
template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  using namespace ::pagoda::device::emulated;
  return of_bits<T>(from_lane(mask, to_bits(value), static_cast<std::uint32_t>(lane)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other) {
  using namespace ::pagoda::device::emulated;
  return of_bits<T>(from_lane_xor(mask, to_bits(value), static_cast<std::uint32_t>(other)));
}
// Lanes below `distance` keep their own value.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  using namespace ::pagoda::device::emulated;
  return of_bits<T>(from_lane_up(mask, to_bits(value), distance));
}
inline unsigned __ballot_sync(unsigned mask, int vote) {
  return ::pagoda::device::emulated::ballot(mask, vote != 0);
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0 ? 1 : 0; }
inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) == 0xFFFFFFFFu ? 1 : 0; }
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return ::pagoda::device::emulated::atomic_add(address, value);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return ::pagoda::device::emulated::atomic_add(address, value);
}
inline unsigned atomicOr(unsigned* address, unsigned value) {
  return ::pagoda::device::emulated::atomic_or(address, value);
}
inline unsigned atomicMax(unsigned* address, unsigned value) {
  return ::pagoda::device::emulated::atomic_max(address, value);
}
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
// Byte i of the result is the byte of {low, high}, numbered 0 to 7, that hexadecimal digit i of `which`
// selects.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (8 * (which >> (4 * i) & 7u)) & 0xFFu) << (8 * i);
  return result;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
