#pragma once
// ClusterCopies: tracks bulk copies (cp.async.bulk) into the shared memory of a cluster's blocks, and the
// barriers (mbarrier) at which copies and threads arrive. Moves no bytes. A phase ends once as many threads
// have arrived as the barrier was made for, and all expected bytes have arrived. A copy arrives only if no
// thread can run otherwise. Products of warpgroups read through the asynchronous proxy: a thread's writes are
// visible to them once a thread that knows of the writes has called show_writes(), and the product's thread
// knows of that call. Each call finds faults, listed in src/device/README.md. Stricter than PTX: arrived
// bytes are visible only to threads that have waited themselves; __syncthreads() does not pass this on.
// Threads: the block's runner. Source: PTX ISA, "mbarrier", "cp.async.bulk", "barrier.cluster", "Async
// proxy".
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pagoda::device::emulated {

class ClusterCopies {
 public:
  // A thread, by its number in the cluster; the number of __syncthreads() its block has passed; how often it
  // has arrived and waited at the cluster's barrier; and how often its warp has met.
  struct Thread {
    std::uint32_t rank, number, phase, arrivals, waits, warp_phase;
  };
  // A copy into one of the blocks; offsets are in shared memory.
  struct Copy {
    const std::byte* from = nullptr;
    std::uint32_t bytes = 0;
    std::size_t offset = 0, barrier = 0;
    std::uint32_t thread = 0, rank = 0;  // the thread that started it; the block that it writes into
  };

  // Begins another cluster, without any knowledge.
  void begin(std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes, std::uint64_t order);

  // The arrival of a copy, or else of the asynchronous copies of `thread`, its oldest ones first.
  struct Arrival {
    std::optional<Copy> copy;  // or those of `thread`
    std::uint32_t thread = 0;
  };

  // Each returns a fault, or an empty string.
  std::string make(const Thread& thread, std::size_t barrier, std::uint32_t count);
  std::string arrive(const Thread& thread, std::size_t barrier, std::uint32_t rank);
  std::string expect(const Thread& thread, std::size_t barrier, std::uint32_t bytes);
  // Arrives at a barrier of the thread's block, once its copies so far have arrived. arrive_one() says when;
  // the copies are then completed before end_later() lets the thread arrive, with its knowledge at the time
  // of this call.
  std::string arrive_later(const Thread& thread, std::size_t barrier);
  std::string end_later(std::uint32_t thread);
  std::string start(const Thread& thread, Copy copy, std::uint32_t ranks);
  std::string touch(const Thread& thread, std::size_t offset, std::size_t size, bool writes);
  // Makes the thread's writes, and those of others that it knows of, visible to the asynchronous proxy
  // (fence.proxy.async).
  void show_writes(const Thread& thread);
  // A product of the thread's warp, in its group number `group`, from 1 on, reads these bytes.
  std::string read_by_product(const Thread& thread, std::size_t offset, std::size_t size,
                              std::uint32_t group);
  // The thread has waited for its warp's products up to that group: they no longer read anything.
  void end_products(const Thread& thread, std::uint32_t group);
  // __syncthreads() of the block `rank`.
  void meet(std::uint32_t rank);
  // Sets the phase for which the thread waits, until arrived(); see() then makes the data of that phase
  // visible to it.
  std::string wait(const Thread& thread, std::size_t barrier, std::uint32_t parity);
  bool arrived(std::uint32_t thread) const;
  void see(std::uint32_t thread);
  // The thread's clock, which advances when it publishes its accesses; and whether another thread, by its
  // number in the cluster, knows of its accesses at `clock`, through barriers of copies: it waited for a
  // later arrival of the thread, or of a thread of the same warp, which had met in between.
  std::uint32_t clock(std::uint32_t thread) const { return known_[thread][clock_of(thread)]; }
  bool knows(std::uint32_t thread, std::uint32_t other, std::uint32_t clock, std::uint32_t warp_phase) const {
    return known_[thread][clock_of(other)] > clock || known_[thread][met_by(other)] > warp_phase;
  }
  // Lets a copy arrive for which a thread waits, or a thread's copies; nullopt if there is none.
  std::optional<Arrival> arrive_one();
  std::string end(const Thread& thread);

 private:
  struct Piece {
    std::uint32_t touched = 0;            // 1 + the block's phase of the latest access
    std::uint32_t phase = 0;              // 1 + the phase of the barrier in which its bytes arrived
    std::uint32_t barrier = 0;            // index of that barrier in the block
    std::uint32_t writer = 0, clock = 0;  // 1 + the thread that wrote it, and its clock then
    bool under_way = false, holds_barrier = false;
  };
  // A thread's knowledge of others. For each block, a phase: accesses before it are known to be complete. For
  // each thread: its clock, which advances with its arrivals at barriers and its show_writes() (everything
  // before is known), and the clock up to which its writes have been shown. For each warp: the groups of
  // products that have ended; and how often it had met when one of its threads arrived.
  using Known = std::vector<std::uint32_t>;
  struct Barrier {
    std::size_t offset = 0;
    std::uint32_t made = 0;  // the maker's number of arrivals
    std::uint32_t count = 0, arrived = 0, phase = 0;
    std::int64_t bytes = 0;           // still expected
    Known arriving, known;            // in this phase; in completed phases
    std::vector<std::uint32_t> seen;  // phases, by thread
  };
  struct Wait {
    std::size_t barrier = 0;
    std::uint32_t rank = 0, parity = 0;
    bool waits = false;
  };
  struct Later {
    Thread thread;
    std::size_t barrier = 0;
    Known known;
  };
  Barrier* at(std::uint32_t rank, std::size_t barrier);
  // True if a bulk copy wrote the piece and the thread has not waited for it.
  bool unseen(const Thread& thread, const Piece& piece) const {
    return piece.phase > 0 && barriers_[thread.rank][piece.barrier].seen[thread.number] < piece.phase;
  }
  // A barrier that a thread other than its maker may signal; or why it may not.
  std::string signalled(const Thread& thread, std::uint32_t rank, std::size_t barrier);
  std::string arrive(Barrier& there, const Known& known);
  void end_phase(Barrier& barrier);
  static void learn(Known& of, const Known& more);
  std::size_t clock_of(std::uint32_t thread) const { return pieces_.size() + thread; }
  std::size_t shown_of(std::uint32_t thread) const { return pieces_.size() + threads_ + thread; }
  std::size_t products_of(std::uint32_t warp) const { return pieces_.size() + 2 * threads_ + warp; }
  std::size_t met_by(std::uint32_t thread) const { return products_of(threads_ / 32 + thread / 32); }
  // True if a product may still read the piece, as far as the thread knows.
  bool may_be_read(const Thread& thread, std::uint32_t rank, std::size_t piece) const;

  std::vector<std::vector<Piece>> pieces_;      // by block
  std::vector<std::vector<Barrier>> barriers_;  // likewise; few
  std::vector<Wait> waits_;                     // by thread
  std::vector<Known> known_;                    // likewise
  std::vector<std::uint32_t> running_;          // threads, by block
  std::vector<Later> later_;
  // By block, piece and warp of the block: the latest group of products that reads it. Empty if none does.
  std::vector<std::vector<std::uint32_t>> reads_;
  std::vector<Copy> copies_;  // in flight, one per receiving block
  std::uint32_t threads_ = 0, threads_of_block_ = 0;
  bool has_fences_ = false;
  std::uint64_t order_ = 0, drawn_ = 0;
};

}  // namespace pagoda::device::emulated
