#pragma once
// Communication of ranks on several devices through windows (../peer_windows.h): words that one rank stores
// and another loads, and a clock for ranks that wait. In PTX, at system scope; the emulated device has its
// own versions. What a rank wrote before a store is visible to every rank that loads the stored value.
#include "device/kernels/dialect.cuh"
#ifndef __CUDACC__
#include "device/emulated/rank_words.h"
#endif

namespace pagoda::device::kernels {

__device__ __forceinline__ std::uint32_t load_of_ranks(const std::uint32_t* word) {
#ifndef __CUDACC__
  return emulated::load_of_ranks(word);
#else
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#endif
}

__device__ __forceinline__ void store_for_ranks(std::uint32_t* word, std::uint32_t value) {
#ifndef __CUDACC__
  emulated::store_for_ranks(word, value);
#else
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#endif
}

__device__ __forceinline__ std::uint64_t nanoseconds() {
#ifndef __CUDACC__
  return emulated::nanoseconds();
#else
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
#endif
}

// Called between two loads of a word that has not changed yet.
__device__ __forceinline__ void rest() {
#ifndef __CUDACC__
  emulated::rest();
#else
  __nanosleep(64);
#endif
}

}  // namespace pagoda::device::kernels
