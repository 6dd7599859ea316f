// The common part of all communicators: checks, statistics, and that a lost group stays lost.
#include "distributed/communicator.h"

#include "base/check.h"

namespace pagoda {

template <class Call>
Status Communicator::measured(const Call& call) {
  if (!lost_.ok()) return lost_;
  const auto start = std::chrono::steady_clock::now();
  lost_ = call();
  stats_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return lost_;
}

Status Communicator::broadcast(std::vector<std::byte>& bytes, std::size_t max_bytes, RankTimeout timeout) {
  CHECK(rank() != 0 || bytes.size() <= max_bytes);
  Status status = measured([&] { return do_broadcast(bytes, max_bytes, timeout); });
  ++stats_.broadcasts;
  stats_.broadcast_bytes += static_cast<std::int64_t>(bytes.size());
  return status;
}

Status Communicator::all_reduce_sum(std::span<float> data, RankTimeout timeout) {
  ++stats_.sums;
  stats_.sum_bytes += static_cast<std::int64_t>(data.size_bytes());
  return measured([&] { return do_all_reduce_sum(data, timeout); });
}

Status Communicator::all_gather(std::span<const float> mine, std::span<const std::size_t> sizes, float* all,
                                RankTimeout timeout) {
  CHECK(sizes.size() == static_cast<std::size_t>(size()));
  CHECK(mine.size() == sizes[static_cast<std::size_t>(rank())]);
  ++stats_.gathers;
  stats_.gather_bytes += static_cast<std::int64_t>(mine.size_bytes());
  return measured([&] { return do_all_gather(mine, sizes, all, timeout); });
}

Status Communicator::gather(std::span<const std::byte> mine, std::span<const std::size_t> sizes,
                            std::byte* all, RankTimeout timeout) {
  CHECK(sizes.size() == static_cast<std::size_t>(size()));
  CHECK(mine.size() == sizes[static_cast<std::size_t>(rank())]);
  ++stats_.gathers;
  stats_.gather_bytes += static_cast<std::int64_t>(mine.size());
  return measured([&] { return do_gather(mine, sizes, all, timeout); });
}

Status Communicator::barrier(RankTimeout timeout) {
  return measured([&] { return do_barrier(timeout); });
}

}  // namespace pagoda
