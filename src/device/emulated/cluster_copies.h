#pragma once
// ClusterCopies: bulk copies (cp.async.bulk) into the shared memory of a cluster's blocks, and the barriers
// (mbarrier) at which they and threads arrive. It keeps account of them and moves no byte. A phase ends once
// as many threads have arrived as the barrier was made for, and all bytes that they expect are there. A copy
// arrives only where no thread can run otherwise. Products of warpgroups read by the asynchronous proxy: what
// a thread has written is there for them once a thread that knows of it has said so by show_writes(), and
// their own knows of that. Each call finds faults, as src/device/README.md lists them. Stricter than PTX:
// bytes that arrived are there for a thread once that thread has waited, and no __syncthreads() passes that
// on. Threads: the block's runner. Source: PTX ISA, "mbarrier", "cp.async.bulk", "barrier.cluster", "Async
// proxy".
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pagoda::device::emulated {

class ClusterCopies {
 public:
  // A thread, by its number among all of the cluster; how many __syncthreads() its block has behind it; and
  // how often it has arrived and waited at the cluster's barrier; and how often its warp has met.
  struct Thread {
    std::uint32_t rank, number, phase, arrivals, waits, warp_phase;
  };
  // Into each of some blocks; offsets are in shared memory.
  struct Copy {
    const std::byte* from = nullptr;
    std::uint32_t bytes = 0;
    std::size_t offset = 0, barrier = 0;
    std::uint32_t thread = 0, rank = 0;  // the thread that started it; the block that it writes into
  };

  // Another cluster, of which nothing is known.
  void begin(std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes, std::uint64_t order);

  // Asynchronous copies of a thread by themselves arrive in its place, its oldest ones first.
  struct Arrival {
    std::optional<Copy> copy;  // or those of `thread`
    std::uint32_t thread = 0;
  };

  // Each gives a fault or nothing.
  std::string make(const Thread& thread, std::size_t barrier, std::uint32_t count);
  std::string arrive(const Thread& thread, std::size_t barrier, std::uint32_t rank);
  std::string expect(const Thread& thread, std::size_t barrier, std::uint32_t bytes);
  // At a barrier of its block, once its copies so far are there: arrive_one() says when, and then they are
  // done before end_later() has the thread arrive, with what it knew when it asked for it.
  std::string arrive_later(const Thread& thread, std::size_t barrier);
  std::string end_later(std::uint32_t thread);
  std::string start(const Thread& thread, Copy copy, std::uint32_t ranks);
  std::string touch(const Thread& thread, std::size_t offset, std::size_t size, bool writes);
  // Shows to the asynchronous proxy, too, what the thread has written, and what it knows that others wrote
  // (fence.proxy.async).
  void show_writes(const Thread& thread);
  // A product of the thread's warp, of its group number `group`, from 1 on, reads these bytes.
  std::string read_by_product(const Thread& thread, std::size_t offset, std::size_t size,
                              std::uint32_t group);
  // The thread has waited for its warp's products up to that group: they read nothing any more.
  void end_products(const Thread& thread, std::uint32_t group);
  // __syncthreads() of the block `rank`.
  void meet(std::uint32_t rank);
  // Says for which phase the thread waits: until arrived(), behind which it sees what that phase brought.
  std::string wait(const Thread& thread, std::size_t barrier, std::uint32_t parity);
  bool arrived(std::uint32_t thread) const;
  void see(std::uint32_t thread);
  // The thread's clock, which goes on when it tells others what it has done; and whether another one, by its
  // number in the cluster, knows of what it did then, by barriers of copies: it waited for its arrival behind
  // that, or for one of its warp's, which had met in between.
  std::uint32_t clock(std::uint32_t thread) const { return known_[thread][clock_of(thread)]; }
  bool knows(std::uint32_t thread, std::uint32_t other, std::uint32_t clock, std::uint32_t warp_phase) const {
    return known_[thread][clock_of(other)] > clock || known_[thread][met_by(other)] > warp_phase;
  }
  // Lets a copy arrive for which a thread waits, or a thread's copies; none: there is none.
  std::optional<Arrival> arrive_one();
  std::string end(const Thread& thread);

 private:
  struct Piece {
    std::uint32_t touched = 0;            // 1 + the block's phase of the latest access
    std::uint32_t phase = 0;              // 1 + that of the barrier in which its bytes arrived
    std::uint32_t barrier = 0;            // that one's place among the block's
    std::uint32_t writer = 0, clock = 0;  // 1 + the thread that wrote it, and its clock then
    bool under_way = false, holds_barrier = false;
  };
  // A thread's knowledge of others. A phase of each block: accesses before it are known to be done. Then the
  // clock of each thread, which goes on with its arrivals at barriers and its show_writes(): what it did
  // before is known; up to which of its clock what each thread wrote has been shown; groups of products of
  // each warp that have ended; and how often each warp had met when one of its threads arrived.
  using Known = std::vector<std::uint32_t>;
  struct Barrier {
    std::size_t offset = 0;
    std::uint32_t made = 0;  // the maker's number of arrivals
    std::uint32_t count = 0, arrived = 0, phase = 0;
    std::int64_t bytes = 0;           // that are still to come
    Known arriving, known;            // in this phase; in those that have ended
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
  // Whether a bulk copy wrote the piece that the thread has not waited for.
  bool unseen(const Thread& thread, const Piece& piece) const {
    return piece.phase > 0 && barriers_[thread.rank][piece.barrier].seen[thread.number] < piece.phase;
  }
  // A barrier that may be signalled by another thread than its maker; or why not.
  std::string signalled(const Thread& thread, std::uint32_t rank, std::size_t barrier);
  std::string arrive(Barrier& there, const Known& known);
  void end_phase(Barrier& barrier);
  static void learn(Known& of, const Known& more);
  std::size_t clock_of(std::uint32_t thread) const { return pieces_.size() + thread; }
  std::size_t shown_of(std::uint32_t thread) const { return pieces_.size() + threads_ + thread; }
  std::size_t products_of(std::uint32_t warp) const { return pieces_.size() + 2 * threads_ + warp; }
  std::size_t met_by(std::uint32_t thread) const { return products_of(threads_ / 32 + thread / 32); }
  // Whether a product may still read the piece, as far as the thread knows.
  bool may_be_read(const Thread& thread, std::uint32_t rank, std::size_t piece) const;

  std::vector<std::vector<Piece>> pieces_;      // by block
  std::vector<std::vector<Barrier>> barriers_;  // likewise; few
  std::vector<Wait> waits_;                     // by thread
  std::vector<Known> known_;                    // likewise
  std::vector<std::uint32_t> running_;          // threads, by block
  std::vector<Later> later_;
  // By block, piece and warp of the block: the latest group of products that reads it. Empty: none does.
  std::vector<std::vector<std::uint32_t>> reads_;
  std::vector<Copy> copies_;  // under way, one for each block that gets it
  std::uint32_t threads_ = 0, threads_of_block_ = 0;
  bool has_fences_ = false;
  std::uint64_t order_ = 0, drawn_ = 0;
};

}  // namespace pagoda::device::emulated
