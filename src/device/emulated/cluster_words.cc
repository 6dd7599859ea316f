#include "device/emulated/cluster_words.h"

#include "device/emulated/block_runner.h"

namespace pagoda::device::emulated {

bool blocks_share() { return BlockRunner::running().shape().cluster > 1; }
std::uint32_t rank_in_cluster() { return BlockRunner::running().rank(); }
void cluster_arrive() { BlockRunner::running().cluster_arrive(); }
void cluster_wait() { BlockRunner::running().cluster_wait(); }
void make_arrivals(std::uint64_t* barrier, std::uint32_t count) {
  BlockRunner::running().make_arrivals(barrier, count);
}
void expect_arrivals(std::uint64_t* barrier, std::uint32_t bytes) {
  BlockRunner::running().expect_arrivals(barrier, bytes);
}
void arrive_at(std::uint64_t* barrier, std::uint32_t rank) {
  BlockRunner::running().arrive_at(barrier, rank);
}
void arrive_with_copies(std::uint64_t* barrier) { BlockRunner::running().arrive_with_copies(barrier); }
void wait_for_arrivals(std::uint64_t* barrier, std::uint32_t parity) {
  BlockRunner::running().wait_for_arrivals(barrier, parity);
}
void copy_to_cluster(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier,
                     std::uint32_t ranks) {
  BlockRunner::running().copy_to_cluster(to, from, bytes, barrier, ranks);
}

}  // namespace pagoda::device::emulated
