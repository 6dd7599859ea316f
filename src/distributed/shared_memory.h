#pragma once
// SharedMemoryGroup: memory through which ranks on one machine exchange data: threads of one process (tests),
// or processes forked from one (local_ranks.h). Anonymous and shared, so that nothing is left behind.
//   * A rank's slot has the number of its last finished round and two halves of data. A round: wait until all
//     others have finished the previous round; write one's own half; publish; read the others' halves.
//   * A waiting rank spins briefly if each rank has a core, then sleeps on a futex. Time is counted in slices
//     of sleep, so that a suspended machine does not look like a hanging rank.
// Threads: join() once per rank, from any thread; each communicator has one caller. Must outlive the
// communicators.
#include <functional>
#include <memory>

#include "distributed/communicator.h"
#include "tensor/memory.h"

namespace pagoda {

class SharedMemoryGroup {
 public:
  static constexpr std::int32_t kMaxRanks = 64;
  // invalid_argument: size not in 1..kMaxRanks.
  static Result<std::shared_ptr<SharedMemoryGroup>> create(std::int32_t size);
  ~SharedMemoryGroup();
  SharedMemoryGroup(const SharedMemoryGroup&) = delete;
  SharedMemoryGroup& operator=(const SharedMemoryGroup&) = delete;

  struct Layout;
  Layout& layout() const { return *layout_; }
  std::int32_t size() const { return size_; }

 private:
  SharedMemoryGroup() = default;
  Layout* layout_ = nullptr;
  std::size_t bytes_ = 0;
  std::int32_t size_ = 0;
};

class SharedMemoryCommunicator : public Communicator {
 public:
  // `check_peers` is called from time to time while waiting; an error means that the group is lost.
  SharedMemoryCommunicator(std::shared_ptr<SharedMemoryGroup> group, std::int32_t rank,
                           std::function<Status()> check_peers = {});
  ~SharedMemoryCommunicator() override;

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return group_->size(); }
  void abort(std::string_view why) override;
  Status aborted() const override;

  struct Slot;

 protected:
  // The rank that the last timed-out call waited for; -1: none.
  std::int32_t stalled_rank() const { return stalled_rank_; }

 private:
  Status do_broadcast(std::vector<std::byte>& bytes, std::size_t max_bytes, RankTimeout timeout) override;
  Status do_all_reduce_sum(std::span<float> data, RankTimeout timeout) override;
  Status do_all_gather(std::span<const float> mine, std::span<const std::size_t> sizes, float* all,
                       RankTimeout timeout) override;
  Status do_gather(std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::byte* all,
                   RankTimeout timeout) override;
  Status do_barrier(RankTimeout timeout) override;

  Slot& slot(std::int32_t rank) const;
  std::byte* half(std::int32_t rank) const;  // the current round's half
  Status begin_round(RankTimeout timeout);
  void publish();
  Status wait_for_others(std::uint32_t round, RankTimeout timeout);
  Status wait_for(std::int32_t peer, std::uint32_t round, RankTimeout timeout);
  Status sleep_for(std::int32_t peer, std::uint32_t round, RankTimeout timeout);

  std::shared_ptr<SharedMemoryGroup> group_;
  std::int32_t rank_;
  std::function<Status()> check_peers_;
  std::uint32_t round_ = 0;
  std::int32_t stalled_rank_ = -1;
  bool spin_ = false;
};

}  // namespace pagoda
