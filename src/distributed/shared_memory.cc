#include "distributed/shared_memory.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/strings.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kHalfBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxReason = 240;
constexpr int kSpins = 2000;  // about 50 microseconds
constexpr milliseconds kFirstSlice{50}, kLongestSlice{500};
// Other ranks wait longer for rank 0 than rank 0 for them: rank 0 should detect which rank hangs, and notify
// its clients.
constexpr milliseconds kGraceForRankZero{2'000};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

std::uint32_t* word(std::atomic<std::uint32_t>& value) { return reinterpret_cast<std::uint32_t*>(&value); }

// Returns false on timeout. Without FUTEX_PRIVATE, since ranks may be processes.
bool futex_wait(std::atomic<std::uint32_t>& value, std::uint32_t expected, milliseconds timeout) {
  timespec time{};
  time.tv_sec = timeout.count() / 1000;
  time.tv_nsec = timeout.count() % 1000 * 1'000'000;
  return syscall(SYS_futex, word(value), FUTEX_WAIT, expected, &time, nullptr, 0) == 0 || errno != ETIMEDOUT;
}

void futex_wake_all(std::atomic<std::uint32_t>& value) {
  syscall(SYS_futex, word(value), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

bool reached(std::uint32_t value, std::uint32_t round) {
  return static_cast<std::int32_t>(value - round) >= 0;  // round numbers wrap
}

std::int32_t usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

struct SharedMemoryCommunicator::Slot {
  alignas(64) std::atomic<std::uint32_t> published{0};
  alignas(64) std::atomic<std::uint32_t> waiters{0};
  alignas(64) std::uint64_t total_bytes[2] = {0, 0};  // bytes of a broadcast, by half
  alignas(64) std::byte data[2][kHalfBytes];
};

struct SharedMemoryGroup::Layout {
  alignas(64) std::atomic<std::uint32_t> aborted_by{0};  // rank + 1
  char reason[kMaxReason + 1] = {};                      // written before aborted_by is set
  std::atomic<std::uint32_t> reason_taken{0};
  SharedMemoryCommunicator::Slot* slots() {
    return reinterpret_cast<SharedMemoryCommunicator::Slot*>(this + 1);
  }
};

Result<std::shared_ptr<SharedMemoryGroup>> SharedMemoryGroup::create(std::int32_t size) {
  if (size < 1 || size > kMaxRanks)
    return invalid_argument(concat("a group of ", size, " ranks is not supported: 1 to ", kMaxRanks));
  const std::size_t bytes =
      sizeof(Layout) + static_cast<std::size_t>(size) * sizeof(SharedMemoryCommunicator::Slot);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return resource_exhausted(concat("cannot allocate shared memory for the ranks: ", std::strerror(errno)));
  std::shared_ptr<SharedMemoryGroup> group(new SharedMemoryGroup);
  group->layout_ = new (memory) Layout;  // slots are zero, as their initialisers would make them
  group->bytes_ = bytes;
  group->size_ = size;
  return group;
}

SharedMemoryGroup::~SharedMemoryGroup() { munmap(layout_, bytes_); }

SharedMemoryCommunicator::SharedMemoryCommunicator(std::shared_ptr<SharedMemoryGroup> group,
                                                   std::int32_t rank, std::function<Status()> check_peers)
    : group_(std::move(group)),
      rank_(rank),
      check_peers_(std::move(check_peers)),
      spin_(group_->size() <= usable_cores()) {
  CHECK(rank >= 0 && rank < group_->size());
}

SharedMemoryCommunicator::~SharedMemoryCommunicator() = default;

SharedMemoryCommunicator::Slot& SharedMemoryCommunicator::slot(std::int32_t rank) const {
  return group_->layout().slots()[rank];
}

std::byte* SharedMemoryCommunicator::half(std::int32_t rank) const { return slot(rank).data[round_ % 2]; }

void SharedMemoryCommunicator::abort(std::string_view why) {
  SharedMemoryGroup::Layout& layout = group_->layout();
  if (layout.reason_taken.exchange(1) == 0) {  // only the first reason is kept
    const std::size_t count = std::min(why.size(), kMaxReason);
    std::memcpy(layout.reason, why.data(), count);
    layout.aborted_by.store(static_cast<std::uint32_t>(rank_) + 1, std::memory_order_release);
  }
  for (std::int32_t peer = 0; peer < size(); ++peer) futex_wake_all(slot(peer).published);
}

Status SharedMemoryCommunicator::aborted() const {
  const SharedMemoryGroup::Layout& layout = group_->layout();
  const std::uint32_t by = layout.aborted_by.load(std::memory_order_acquire);
  if (by == 0) return ok_status();
  const std::size_t length = strnlen(layout.reason, kMaxReason);
  return unavailable(concat("rank ", by - 1, " gave up: ", std::string_view(layout.reason, length)));
}

void SharedMemoryCommunicator::publish() {
  Slot& mine = slot(rank_);
  mine.published.store(round_, std::memory_order_seq_cst);
  if (mine.waiters.load(std::memory_order_seq_cst) > 0) futex_wake_all(mine.published);
}

Status SharedMemoryCommunicator::wait_for(std::int32_t peer, std::uint32_t round, RankTimeout timeout) {
  std::atomic<std::uint32_t>& published = slot(peer).published;
  for (int i = 0; i < (spin_ ? kSpins : 1); ++i) {
    if (reached(published.load(std::memory_order_acquire), round)) return ok_status();
    relax();
  }
  return sleep_for(peer, round, timeout);
}

Status SharedMemoryCommunicator::sleep_for(std::int32_t peer, std::uint32_t round, RankTimeout timeout) {
  Slot& other = slot(peer);
  const milliseconds limit = timeout + (peer == 0 ? kGraceForRankZero : milliseconds(0));
  milliseconds slept{0}, slice = kFirstSlice;
  for (;;) {
    // Either this load sees the round, or publish() sees the waiter.
    other.waiters.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t value = other.published.load(std::memory_order_seq_cst);
    const bool there = reached(value, round);
    const bool woken = there || futex_wait(other.published, value, slice);
    other.waiters.fetch_sub(1, std::memory_order_seq_cst);
    if (there) return ok_status();
    // A rank that aborted after publishing has contributed its part.
    if (Status cause = aborted();
        !cause.ok() && !reached(other.published.load(std::memory_order_acquire), round))
      return cause;
    if (woken) continue;
    if (check_peers_) PAGODA_RETURN_IF_ERROR(check_peers_());
    slept += slice;
    slice = std::min(2 * slice, kLongestSlice);
    if (timeout != kNoTimeout && slept >= limit) {
      stalled_rank_ = peer;
      return {StatusCode::deadline_exceeded,
              concat("rank ", peer, " did not answer rank ", rank_, " within ", slept.count(), " ms")};
    }
    if (timeout != kNoTimeout) slice = std::min(slice, limit - slept);
  }
}

Status SharedMemoryCommunicator::wait_for_others(std::uint32_t round, RankTimeout timeout) {
  for (std::int32_t peer = 0; peer < size(); ++peer) {
    if (peer != rank_) PAGODA_RETURN_IF_ERROR(wait_for(peer, round, timeout));
  }
  return ok_status();
}

Status SharedMemoryCommunicator::begin_round(RankTimeout timeout) {
  // A rank that aborted contributes nothing more, whichever of its threads aborted: its own later calls must
  // fail, too.
  if (group_->layout().aborted_by.load(std::memory_order_acquire) == static_cast<std::uint32_t>(rank_) + 1)
    return aborted();
  PAGODA_RETURN_IF_ERROR(wait_for_others(round_, timeout));
  ++round_;
  return ok_status();
}

Status SharedMemoryCommunicator::do_broadcast(std::vector<std::byte>& bytes, std::size_t max_bytes,
                                              RankTimeout timeout) {
  std::size_t offset = 0, total = bytes.size();
  do {
    PAGODA_RETURN_IF_ERROR(begin_round(timeout));
    std::uint64_t& announced = slot(0).total_bytes[round_ % 2];
    if (rank_ == 0) {
      announced = total;
    } else {
      PAGODA_RETURN_IF_ERROR(wait_for(0, round_, timeout));
      if (offset == 0) {
        total = announced;
        if (total > max_bytes)
          return corrupt_data(concat("a message of ", total, " bytes; the limit is ", max_bytes));
        bytes.resize(total);
      }
    }
    const std::size_t count = std::min(kHalfBytes, total - offset);
    if (count > 0) {
      if (rank_ == 0)
        std::memcpy(half(0), bytes.data() + offset, count);
      else
        std::memcpy(bytes.data() + offset, half(0), count);
    }
    publish();
    offset += count;
  } while (offset < total);
  return ok_status();
}

Status SharedMemoryCommunicator::do_all_reduce_sum(std::span<float> data, RankTimeout timeout) {
  constexpr std::size_t kPiece = kHalfBytes / sizeof(float);
  for (std::size_t first = 0; first < data.size(); first += kPiece) {
    const std::size_t count = std::min(kPiece, data.size() - first), bytes = count * sizeof(float);
    PAGODA_RETURN_IF_ERROR(begin_round(timeout));
    float* const sum = data.data() + first;
    std::memcpy(half(rank_), sum, bytes);
    publish();
    PAGODA_RETURN_IF_ERROR(wait_for_others(round_, timeout));
    std::memcpy(sum, half(0), bytes);
    for (std::int32_t peer = 1; peer < size(); ++peer) {
      const auto* in = reinterpret_cast<const float*>(half(peer));
      for (std::size_t i = 0; i < count; ++i) sum[i] += in[i];
    }
  }
  return ok_status();
}

Status SharedMemoryCommunicator::do_all_gather(std::span<const float> mine,
                                               std::span<const std::size_t> sizes, float* all,
                                               RankTimeout timeout) {
  constexpr std::size_t kPiece = kHalfBytes / sizeof(float);
  const std::size_t largest = *std::max_element(sizes.begin(), sizes.end());
  const auto bytes = [&](std::size_t size, std::size_t first) {
    return first < size ? std::min(kPiece, size - first) * sizeof(float) : std::size_t{0};
  };
  for (std::size_t first = 0; first < largest; first += kPiece) {
    PAGODA_RETURN_IF_ERROR(begin_round(timeout));
    if (const std::size_t own = bytes(mine.size(), first); own > 0)
      std::memcpy(half(rank_), mine.data() + first, own);
    publish();
    float* to = all;
    for (std::int32_t peer = 0; peer < size(); ++peer) {
      const std::size_t size = sizes[static_cast<std::size_t>(peer)], part = bytes(size, first);
      if (peer != rank_) {
        PAGODA_RETURN_IF_ERROR(wait_for(peer, round_, timeout));
        if (part > 0) std::memcpy(to + first, half(peer), part);
      } else if (part > 0 && to != mine.data()) {
        std::memcpy(to + first, mine.data() + first, part);
      }
      to += size;
    }
  }
  return ok_status();
}

Status SharedMemoryCommunicator::do_gather(std::span<const std::byte> mine,
                                           std::span<const std::size_t> sizes, std::byte* all,
                                           RankTimeout timeout) {
  if (rank_ == 0 && mine.data() != all) std::memcpy(all, mine.data(), mine.size());
  if (size() == 1) return ok_status();
  const std::size_t largest = *std::max_element(sizes.begin() + 1, sizes.end());
  for (std::size_t offset = 0; offset < largest; offset += kHalfBytes) {
    PAGODA_RETURN_IF_ERROR(begin_round(timeout));
    const auto piece = [&](std::size_t size) {
      return offset < size ? std::min(kHalfBytes, size - offset) : std::size_t{0};
    };
    if (rank_ == 0) {
      std::byte* to = all + sizes[0] + offset;
      for (std::int32_t peer = 1; peer < size(); ++peer) {
        PAGODA_RETURN_IF_ERROR(wait_for(peer, round_, timeout));
        const std::size_t size = sizes[static_cast<std::size_t>(peer)];
        if (piece(size) > 0) std::memcpy(to, half(peer), piece(size));
        to += size;
      }
    } else if (piece(mine.size()) > 0) {
      std::memcpy(half(rank_), mine.data() + offset, piece(mine.size()));
    }
    publish();
  }
  return ok_status();
}

Status SharedMemoryCommunicator::do_barrier(RankTimeout timeout) {
  PAGODA_RETURN_IF_ERROR(begin_round(timeout));
  publish();
  return wait_for_others(round_, timeout);
}

}  // namespace pagoda
