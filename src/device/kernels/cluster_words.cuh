#pragma once
// PTX instructions for blocks that share copies (compute capability 9.0, compiled for it): a cluster's
// barrier, and bulk copies into the shared memory of all of its blocks, which arrive at a barrier of each.
// The emulated device has its own versions. Elsewhere blocks_share() is false, and the other functions must
// not be called.
#include "device/kernels/dialect.cuh"
#ifndef __CUDACC__
#include "device/emulated/cluster_words.h"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PAGODA_CLUSTERS 1
#endif

namespace pagoda::device::kernels {

// Uniform over all threads of a launch; with nvcc a constant.
__device__ __forceinline__ bool blocks_share() {
#ifndef __CUDACC__
  return emulated::blocks_share();
#elif defined(PAGODA_CLUSTERS)
  return true;
#else
  return false;
#endif
}

// The rank of the block in its cluster.
__device__ __forceinline__ unsigned rank_in_cluster() {
#ifndef __CUDACC__
  return emulated::rank_in_cluster();
#elif defined(PAGODA_CLUSTERS)
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// All threads of the cluster arrive, and then wait. This makes barriers of copies that were initialised
// before visible to all blocks, and orders nothing else.
__device__ __forceinline__ void cluster_arrive() {
#ifndef __CUDACC__
  emulated::cluster_arrive();
#elif defined(PAGODA_CLUSTERS)
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#ifndef __CUDACC__
  emulated::cluster_wait();
#elif defined(PAGODA_CLUSTERS)
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// A barrier in shared memory. A phase ends when `count` threads have arrived, by one of the two functions
// below, and all bytes that they expect have arrived. One thread initialises it; the cluster's barrier makes
// it visible to the others.
__device__ __forceinline__ void make_arrivals(std::uint64_t* barrier, unsigned count) {
#ifndef __CUDACC__
  emulated::make_arrivals(barrier, count);
#elif defined(PAGODA_CLUSTERS)
  const auto shared = shared_address(barrier);
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(shared),
      "r"(count)
      : "memory");
#endif
}
__device__ __forceinline__ void expect_arrivals(std::uint64_t* barrier, unsigned bytes) {
#ifndef __CUDACC__
  emulated::expect_arrivals(barrier, bytes);
#elif defined(PAGODA_CLUSTERS)
  const auto shared = shared_address(barrier);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared), "r"(bytes) : "memory");
#endif
}
// Arrives at the barrier of block `rank` of the cluster at the same offset as `barrier` here: data that this
// thread has read, or other threads synchronised with it by __syncthreads(), may now be overwritten. (As
// ClusterBarrier::arrive in CUTLASS; a release at cluster scope would also wait for all writes of the
// thread.)
__device__ __forceinline__ void arrive_at(std::uint64_t* barrier, unsigned rank) {
#ifndef __CUDACC__
  emulated::arrive_at(barrier, rank);
#elif defined(PAGODA_CLUSTERS)
  const auto shared = shared_address(barrier);
  asm volatile(
      "{\n\t.reg .b32 there;\n\t"
      "mapa.shared::cluster.u32 there, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(shared),
      "r"(rank)
      : "memory");
#endif
}
// Arrives at a barrier of this block, after all reads and writes of the thread.
__device__ __forceinline__ void arrive_here(std::uint64_t* barrier) {
#ifndef __CUDACC__
  emulated::arrive_at(barrier, emulated::rank_in_cluster());
#elif defined(PAGODA_CLUSTERS)
  const auto shared = shared_address(barrier);
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared) : "memory");
#endif
}
// Arrives at a barrier of this block once all copy_async() of this thread so far have arrived; does not block
// the thread. These copies belong to no group of copies_commit().
__device__ __forceinline__ void arrive_with_copies(std::uint64_t* barrier) {
#ifndef __CUDACC__
  emulated::arrive_with_copies(barrier);
#elif defined(PAGODA_CLUSTERS)
  const auto shared = shared_address(barrier);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared) : "memory");
#endif
}
// Waits until the phase with this parity has ended; the first phase has parity 0. Every thread that reads the
// data waits.
__device__ __forceinline__ void wait_for_arrivals(std::uint64_t* barrier, unsigned parity) {
#ifndef __CUDACC__
  emulated::wait_for_arrivals(barrier, parity);
#elif defined(PAGODA_CLUSTERS)
  const auto shared = shared_address(barrier);
  unsigned ended;
  do {
    asm volatile(
        "{\n\t.reg .pred ended;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, ended;\n\t}"
        : "=r"(ended)
        : "r"(shared), "r"(parity)
        : "memory");
  } while (ended == 0);
#endif
}

// Copies `bytes`, a multiple of 16, to the same offset of shared memory in each block of `ranks`, a bit mask;
// both addresses are multiples of 16. The copy arrives at the barrier at the offset of `barrier`.
__device__ __forceinline__ void copy_to_cluster(void* to, const void* from, unsigned bytes,
                                                std::uint64_t* barrier, unsigned ranks) {
#ifndef __CUDACC__
  emulated::copy_to_cluster(to, from, bytes, barrier, ranks);
#elif defined(PAGODA_CLUSTERS)
  const auto shared = shared_address(to), arrivals = shared_address(barrier);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared),
      "l"(from), "r"(bytes), "r"(arrivals), "h"(static_cast<std::uint16_t>(ranks))
      : "memory");
#endif
}

}  // namespace pagoda::device::kernels
