#pragma once
// Communicator: messages between the ranks of a tensor-parallel group: rank 0's control messages to all,
// activations among all, parts of logits to rank 0. Every rank makes the same calls with the same sizes in
// the same order.
//   * Every call has a deadline. If it passes or a rank is gone, this call and all later calls fail: the
//     group is lost. abort() makes the other ranks' calls fail, too, instead of waiting.
//   * shared_memory.h: threads, or processes of one machine; mpi.h: mpirun's ranks.
// Source: Megatron-LM (arXiv 1909.08053) §3 for the cuts; PagedAttention (SOSP'23) §4.6.
// Threads: each rank's object has one caller.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// Timeout of calls that wait for other ranks; kNoTimeout: no deadline.
using RankTimeout = std::chrono::milliseconds;
inline constexpr RankTimeout kNoTimeout{0};

struct CommunicationStats {
  std::int64_t broadcasts = 0, broadcast_bytes = 0;
  std::int64_t sums = 0, sum_bytes = 0;  // bytes that this rank contributes
  std::int64_t gathers = 0, gather_bytes = 0;
  double seconds = 0;  // time in all calls, including the wait for slower ranks
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;

  // Sends rank 0's bytes to every rank. corrupt_data: more than max_bytes.
  Status broadcast(std::vector<std::byte>& bytes, std::size_t max_bytes, RankTimeout timeout);

  // Replaces data by the sum over all ranks, in any order. The length must be equal, and the resulting bits
  // are equal, on every rank.
  Status all_reduce_sum(std::span<float> data, RankTimeout timeout);

  // Concatenates sizes[r] floats of each rank r into `all` on every rank. `mine` may be this rank's place in
  // `all`.
  Status all_gather(std::span<const float> mine, std::span<const std::size_t> sizes, float* all,
                    RankTimeout timeout);

  // Concatenates sizes[r] bytes of each rank r into `all` on rank 0. `mine` may be this rank's place in
  // `all`.
  Status gather(std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::byte* all,
                RankTimeout timeout);

  // Returns once every rank has called it.
  Status barrier(RankTimeout timeout);

  // Marks the group as lost: the other ranks' calls fail soon. Idempotent.
  virtual void abort(std::string_view why) = 0;

  // Returns which rank aborted first and why; ok if no rank did, or if that cannot be known (MPI).
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
