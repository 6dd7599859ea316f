#pragma once
// PageMapper: carries out the mappings of ScheduledBatches on a PageArena, or on a device's counterpart.
// Mappings that a step needs are done before it runs; those for later steps are done on PageMapper's own
// thread while it runs.
// Invariant: the mappings of a batch are carried out in order, after all mappings of earlier batches.
// Threads: one caller (the engine thread) and its own thread.
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "request/page_ops.h"
#include "request/step_result.h"
#include "tensor/page_arena.h"

namespace pagoda {

// Number of pages that `mappings` map.
inline std::int64_t pages_of(std::span<const PageMapping> mappings) {
  std::int64_t pages = 0;
  for (const PageMapping& mapping : mappings)
    pages += mapping.page == kNoPage || mapping.block == kNoBlock ? 0 : mapping.count;
  return pages;
}

template <class Arena>
class PageMapperOf {
 public:
  explicit PageMapperOf(Arena arena);
  ~PageMapperOf();

  // Waits for mappings in the background, then carries out `mappings`. An error if the system refused a
  // mapping, now or in the background; pages that a block table needs may then be missing.
  Status map(std::span<const PageMapping> mappings);
  // Returns at once.
  void map_ahead(std::span<const PageMapping> mappings);
  Status create_pages(std::int64_t first, std::int64_t count);
  // Makes created pages resident before they are used. Returns false if the system did not.
  bool populate(std::int64_t first, std::int64_t count) { return arena_.populate(first, count); }

  const Arena& arena() const { return arena_; }
  MapStats take_stats();  // since the last call

 private:
  Status carry_out(std::span<const PageMapping> mappings);
  void wait_for_thread(std::unique_lock<std::mutex>& lock);
  void run();

  Arena arena_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<PageMapping> ahead_;  // mappings that the thread is carrying out; empty: idle
  bool stop_ = false;
  Status status_;       // the thread's error
  MapStats stats_;      // the thread writes ..._ahead, under the mutex
  std::thread thread_;  // declared last
};

using PageMapper = PageMapperOf<PageArena>;

template <class Arena>
PageMapperOf<Arena>::PageMapperOf(Arena arena) : arena_(std::move(arena)), thread_([this] { run(); }) {}

template <class Arena>
PageMapperOf<Arena>::~PageMapperOf() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

template <class Arena>
Status PageMapperOf<Arena>::carry_out(std::span<const PageMapping> mappings) {
  for (const PageMapping& mapping : mappings) {
    if (mapping.block == kNoBlock) {
      arena_.discard(index(mapping.page), mapping.count);
      continue;
    }
    PAGODA_RETURN_IF_ERROR(mapping.page == kNoPage
                               ? arena_.unmap(index(mapping.block), mapping.count)
                               : arena_.map(index(mapping.block), index(mapping.page), mapping.count));
  }
  return ok_status();
}

template <class Arena>
void PageMapperOf<Arena>::wait_for_thread(std::unique_lock<std::mutex>& lock) {
  // The thread is in a system call that returns; there is nothing else to wait for.
  done_.wait(lock, [this] { return ahead_.empty(); });
}

template <class Arena>
Status PageMapperOf<Arena>::map(std::span<const PageMapping> mappings) {
  const SteadyClock clock;
  const TimeNs start = clock.now();
  std::unique_lock lock(mutex_);
  const bool waits = !ahead_.empty();
  wait_for_thread(lock);
  if (!status_.ok()) return status_;
  if (waits || !mappings.empty()) {
    const Status status = carry_out(mappings);
    stats_.calls += static_cast<std::int64_t>(mappings.size()) * arena_.shape().num_tensors;
    stats_.pages += pages_of(mappings);
    stats_.seconds += to_seconds(clock.now() - start);
    ++stats_.steps_delayed;
    return status;
  }
  return ok_status();
}

template <class Arena>
void PageMapperOf<Arena>::map_ahead(std::span<const PageMapping> mappings) {
  if (mappings.empty()) return;
  {
    std::unique_lock lock(mutex_);
    wait_for_thread(lock);
    ahead_.assign(mappings.begin(), mappings.end());
  }
  wake_.notify_one();
}

template <class Arena>
Status PageMapperOf<Arena>::create_pages(std::int64_t first, std::int64_t count) {
  return arena_.create_pages(first, count);
}

template <class Arena>
MapStats PageMapperOf<Arena>::take_stats() {
  const std::lock_guard lock(mutex_);
  return std::exchange(stats_, {});
}

template <class Arena>
void PageMapperOf<Arena>::run() {
  const SteadyClock clock;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !ahead_.empty(); });
    if (ahead_.empty()) return;
    // The caller does not touch ahead_ until it is empty.
    lock.unlock();
    const TimeNs start = clock.now();
    Status status = carry_out(ahead_);
    const double seconds = to_seconds(clock.now() - start);
    lock.lock();
    if (!status.ok()) status_ = std::move(status);
    const std::int64_t calls = static_cast<std::int64_t>(ahead_.size()) * arena_.shape().num_tensors;
    stats_.calls += calls;
    stats_.calls_ahead += calls;
    const std::int64_t pages = pages_of(ahead_);
    stats_.pages += pages;
    stats_.pages_ahead += pages;
    stats_.seconds_ahead += seconds;
    ahead_.clear();
    done_.notify_one();
  }
}

}  // namespace pagoda
