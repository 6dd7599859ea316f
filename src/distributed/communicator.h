#pragma once
// Communicator: messages between the ranks of a tensor-parallel group: rank 0's control messages to all,
// activations among all, parts of logits to rank 0. Every rank makes the same calls with the same sizes in
// the same order.
//   * Every call has a deadline; when it passes, or a rank is gone, the call and every later one fail: the
//     group is lost. abort() makes the others fail too instead of waiting.
//   * shared_memory.h: threads, or processes of one machine; mpi.h: mpirun's ranks.
// Source: Megatron-LM (arXiv 1909.08053) §3 for the cuts; PagedAttention (SOSP'23) §4.6. Threads: each rank's
// object has one caller.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// Time of calls that wait for other ranks; none: no deadline.
using RankTimeout = std::chrono::milliseconds;
inline constexpr RankTimeout kNoTimeout{0};

struct CommunicationStats {
  std::int64_t broadcasts = 0, broadcast_bytes = 0;
  std::int64_t sums = 0, sum_bytes = 0;  // bytes: what this rank contributes
  std::int64_t gathers = 0, gather_bytes = 0;
  double seconds = 0;  // in any of them, waiting for slower ranks included
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;

  // Rank 0's bytes, on every rank. corrupt_data: more than max_bytes.
  Status broadcast(std::vector<std::byte>& bytes, std::size_t max_bytes, RankTimeout timeout);

  // data = the sum over all ranks, in any order; the same length and the same bits on every rank.
  Status all_reduce_sum(std::span<float> data, RankTimeout timeout);

  // sizes[r] floats of each rank r, one after the other, into `all` on every rank. `mine` may lie in its
  // place.
  Status all_gather(std::span<const float> mine, std::span<const std::size_t> sizes, float* all,
                    RankTimeout timeout);

  // sizes[r] bytes of each rank r, one after the other, into `all` on rank 0. `mine` may lie in its place.
  Status gather(std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::byte* all,
                RankTimeout timeout);

  // Returns once every rank has called it.
  Status barrier(RankTimeout timeout);

  // The group is lost: all others' calls fail soon. Safe to repeat.
  virtual void abort(std::string_view why) = 0;

  // Which rank gave up first, and why; ok if none has, or where that cannot be known (MPI).
  virtual Status aborted() const { return ok_status(); }

  const CommunicationStats& stats() const { return stats_; }

 protected:
  virtual Status do_broadcast(std::vector<std::byte>& bytes, std::size_t max_bytes, RankTimeout timeout) = 0;
  virtual Status do_all_reduce_sum(std::span<float> data, RankTimeout timeout) = 0;
  virtual Status do_all_gather(std::span<const float> mine, std::span<const std::size_t> sizes, float* all,
                               RankTimeout timeout) = 0;
  virtual Status do_gather(std::span<const std::byte> mine, std::span<const std::size_t> sizes,
                           std::byte* all, RankTimeout timeout) = 0;
  virtual Status do_barrier(RankTimeout timeout) = 0;

 private:
  template <class Call>
  Status measured(const Call& call);

  CommunicationStats stats_;
  Status lost_;
};

}  // namespace pagoda
