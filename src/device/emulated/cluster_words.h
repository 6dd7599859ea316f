#pragma once
// The PTX instructions of kernels/cluster_words.cuh on the emulated device; rules: cluster_copies.h. Threads:
// those of the running block.
#include <cstdint>

namespace pagoda::device::emulated {

// True if the launch has clusters of several blocks; and the rank of the block in its cluster.
bool blocks_share();
std::uint32_t rank_in_cluster();
void cluster_arrive();
void cluster_wait();
void make_arrivals(std::uint64_t* barrier, std::uint32_t count);
void expect_arrivals(std::uint64_t* barrier, std::uint32_t bytes);
void arrive_at(std::uint64_t* barrier, std::uint32_t rank);
void arrive_with_copies(std::uint64_t* barrier);
void wait_for_arrivals(std::uint64_t* barrier, std::uint32_t parity);
void copy_to_cluster(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier,
                     std::uint32_t ranks);

}  // namespace pagoda::device::emulated
