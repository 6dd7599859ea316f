#pragma once
// BlockRunner: runs a launch on the emulated device, one cluster of blocks after the other (mostly of one
// block). Threads are fibers that yield at barriers. Every load and store of the kernel is checked
// (access_hooks.cc) against allocations and against accesses of other threads. Detects: accesses outside of
// an allocation, of the block's shared memory and of the thread's own stack; races; barriers that some
// threads of the block or warp miss; accesses to bytes that an asynchronous copy may still write; accesses to
// memory that kernels write before waiting for earlier kernels, and threads that never wait. A copy completes
// as late as possible, when its thread waits; cluster copies: cluster_copies.h. The first fault ends the
// launch. Stricter than CUDA: warps are whole with full masks; a barrier does not exempt ended threads.
// Threads: one; a launch runs on the caller's thread. Owner: EmulatedDevice.
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/emulated/access_counts.h"
#include "device/emulated/access_shadow.h"
#include "device/emulated/cluster_copies.h"
#include "device/emulated/device_memory.h"
#include "device/emulated/fiber.h"
#include "device/emulated/warpgroup_products.h"
#include "device/emulated/window_mappings.h"

namespace pagoda::device::emulated {

// The type of an emulated Kernel::entry.
using KernelEntry = void (*)(const void* args);

class BlockRunner {
 public:
  // `counts`: receives the cost of accesses, or null. `backward`: kernels with this name prefix sum products
  // in another order (warpgroup_products.h); empty: none.
  BlockRunner(DeviceMemory& memory, const WindowMappings& windows, AccessCounts* counts,
              std::string backward = {});

  // `order` determines the order of threads between barriers, and of blocks. Returns the fault, or an empty
  // string.
  std::string run(const Kernel& kernel, const LaunchShape& shape, std::span<const std::byte> args,
                  std::uint64_t order);

  // The following are called by kernels (cuda_on_host.h), on the running thread. Its indices:
  static BlockRunner& running();
  const Dim3& thread_index() const { return place_.index; }
  Dim3 block_index() const { return block().index; }
  const LaunchShape& shape() const { return *shape_; }
  std::uint64_t order() const { return order_; }
  std::byte* shared() { return block().shared.data(); }
  // The thread has waited for earlier kernels. Before, it must not access memory that any kernel writes.
  void wait_for_earlier() { waited_[current_] = true; }
  // Barriers of the block.
  void block_barrier();
  std::uint32_t block_count(bool vote);  // a barrier that counts the threads that voted true
  // A barrier of a warp, at which each lane contributes a value and receives those of all lanes.
  using Lanes = std::array<std::uint64_t, kWarp>;
  const Lanes& exchange(std::uint32_t mask, std::uint64_t value);
  // Likewise for several words per lane: a line of lanes for each of `words`, at most kWords.
  static constexpr std::size_t kWords = 4;
  using WordsOfLanes = std::array<Lanes, kWords>;
  const WordsOfLanes& exchange_words(std::uint32_t mask, std::span<const std::uint64_t> words);
  std::uint32_t lane() const { return current_ % kWarp; }
  // Records an atomic, or another special read or write, before it is executed by the kernel's instruction
  // `site`.
  void note(const void* address, std::size_t size, AccessKind kind, const void* site) {
    access(reinterpret_cast<std::uintptr_t>(address), size, kind, site, 1);
  }
  // Takes a ticket of a counter. The last ticket shows its block what the other blocks did before the barrier
  // that preceded their tickets. Returns true for the last ticket.
  bool take_ticket(const void* counter, bool last);
  // Asynchronous copies of kCopyBytes into shared memory. Only the first `taken` bytes are read; the others
  // become zero. Until its thread has waited, no thread may access the target bytes.
  static constexpr std::size_t kCopyBytes = 16;
  void start_copy(void* to, const void* from, std::size_t taken, const void* site);
  void commit_copies();
  void wait_for_copies(std::size_t groups_left);
  // The block's rank in the cluster, and the cluster's barrier, at which a thread alternately arrives and
  // waits.
  std::uint32_t rank() const { return place_.rank; }
  void cluster_arrive();
  void cluster_wait();
  // Bulk copies, which arrive at barriers of the blocks. `barrier` and `to` are in shared memory, at the same
  // offset in all blocks of `ranks`, a bit mask, or in the block `rank`.
  void make_arrivals(const void* barrier, std::uint32_t count);
  void arrive_at(const void* barrier, std::uint32_t rank);
  void arrive_with_copies(const void* barrier);
  void expect_arrivals(const void* barrier, std::uint32_t bytes);
  void wait_for_arrivals(const void* barrier, std::uint32_t parity);
  void copy_to_cluster(void* to, const void* from, std::uint32_t bytes, const void* barrier,
                       std::uint32_t ranks);

  // Products of warpgroups, and the fence between writes of threads and these products.
  void show_writes() { cluster_copies_.show_writes(cluster_thread()); }
  void fence_products(const float* sums, std::size_t count) { products_.fence(current_, sums, count); }
  void multiply_warpgroup(float* sums, const WarpgroupProducts::Product& product);
  void multiply_warpgroup(float* sums, const WarpgroupProducts::Product& product,
                          const WarpgroupProducts::Rows& rows);  // `rows` is the left matrix
  std::size_t place_in_shared(const void* address) const { return in_shared(address); }
  void commit_products() { products_.commit(current_); }
  void wait_for_products(std::size_t groups_left);

  // Ends the launch with this fault of the running thread.
  [[noreturn]] void refuse(const char* what);

  // Called by the compiler's hooks. A no-op while no kernel runs. An address that is not a multiple of
  // `alignment` is a fault, as on hardware.
  static void on_access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site,
                        std::size_t alignment);

 private:
  enum class State : std::uint8_t {
    runs,
    at_block_barrier,
    at_warp_barrier,
    at_cluster_barrier,
    at_arrivals,
    ended
  };
  // From its phase `from` on, a block knows everything that `block` did before its phase `before`.
  struct Known {
    std::uint32_t block, before, from;
  };
  struct Block {
    std::vector<Known> known;
    std::vector<std::byte> shared = std::vector<std::byte>(kMaxClusterSharedBytes);
    AccessShadow shadow = AccessShadow(kMaxClusterSharedBytes);
    // For each kCopyBytes of shared memory: 1 + the thread, or 0.
    std::vector<std::uint16_t> copied_by = std::vector<std::uint16_t>(kMaxClusterSharedBytes / kCopyBytes);
    Dim3 index;
    std::uint32_t number = 0, phase = 0;
    // Votes of this phase, and of the previous one, which is still read.
    std::array<std::uint32_t, 2> votes = {};
  };
  struct Warp {
    std::uint32_t phase = 0;
    std::array<WordsOfLanes, 2> values;  // this phase's and the previous one's, which some lanes still read
  };
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t taken;
  };
  struct Copies {                           // copies of a thread
    std::vector<std::vector<Copy>> groups;  // committed, the oldest first
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> arriving;  // for arrive_with_copies(), the oldest first
    void clear() {
      groups.clear();
      open.clear();
      arriving.clear();
    }
  };

  static void run_thread(void* self);
  void run_cluster();
  void go_on_as(std::uint32_t thread);  // sets place_, with the rank and index in the cluster
  void read_by_product(std::size_t first, std::size_t lines, std::size_t pieces);
  bool run_all();  // false: nothing could run
  bool release();  // false: no barrier is complete
  bool release_blocks();
  // Releases threads that wait for their cluster, or for copies to it; one copy arrives if no other thread
  // can run.
  bool release_cluster();
  std::string stuck() const;
  std::string end(const Copy& copy);  // returns a fault, or nothing
  void arrive_with_copies_of(std::uint32_t thread);
  std::size_t place_of(const Copy& copy) const;
  std::string under_way(std::size_t in_shared, std::size_t size) const;
  // `site`: null if the access is not counted.
  void access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site,
              std::size_t alignment);
  std::string fault_of(std::uintptr_t address, std::size_t size, AccessKind kind);
  bool knows(const AccessStamp& then) const;
  void fail(const std::string& what);  // the thread must then call stop(), with nothing left to destroy
  [[noreturn]] void stop();
  void pause(State state);
  std::string where() const;
  // The running thread's number in its block; and that block.
  std::uint32_t thread() const { return place_.thread; }
  Block& block() { return blocks_[rank()]; }
  const Block& block() const { return blocks_[rank()]; }
  // The offset of an address in the block's shared memory; beyond its end if it is elsewhere.
  std::size_t in_shared(std::uintptr_t address) const {
    return address - reinterpret_cast<std::uintptr_t>(block().shared.data());
  }
  std::size_t in_shared(const void* address) const {
    return in_shared(reinterpret_cast<std::uintptr_t>(address));
  }
  std::span<State> states_of(std::uint32_t rank) {
    return std::span(states_).subspan(std::size_t{rank} * num_threads_, num_threads_);
  }
  ClusterCopies::Thread cluster_thread() const {
    return {rank(),           current_,
            block().phase,    arrivals_[current_],
            waits_[current_], warps_[current_ / kWarp].phase};
  }
  void expect(const std::string& fault);  // CHECKs that there is none

  DeviceMemory& memory_;
  const WindowMappings& windows_;
  AccessCounts* counts_;
  FiberStacks stacks_;
  std::vector<Block> blocks_;  // as many as in the largest cluster so far
  // Threads and warps of the whole cluster.
  std::vector<State> states_;
  std::vector<bool> waited_;  // for earlier kernels
  std::vector<Warp> warps_;
  std::vector<Copies> copies_;
  std::vector<std::uint32_t> arrivals_, waits_;  // at the cluster's barrier, by thread
  std::uint32_t arrived_ = 0, cluster_phase_ = 0;
  ClusterCopies cluster_copies_;
  std::string backward_;
  WarpgroupProducts products_;
  bool has_groups_ = false;                            // copies_ is not empty
  std::size_t num_copies_ = 0;                         // in flight
  std::map<const void*, std::vector<Known>> tickets_;  // this launch's, by counter

  const Kernel* kernel_ = nullptr;
  const LaunchShape* shape_ = nullptr;
  std::span<const std::byte> args_;
  // num_threads_: per block
  std::uint32_t launch_ = 0, num_threads_ = 0, clusters_run_ = 0;
  // The running thread's number in the cluster; and its block's rank and its number and index there.
  struct Place {
    std::uint32_t rank = 0, thread = 0;
    Dim3 index;
  };
  std::uint32_t current_ = 0;
  Place place_;
  std::vector<Place> places_;  // the cluster's, by thread
  std::uint64_t order_ = 0;
  bool backwards_ = false;
  std::string fault_;
};

}  // namespace pagoda::device::emulated
