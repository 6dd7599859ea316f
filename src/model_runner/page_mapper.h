#pragma once
// PageMapper: carries out the mappings of ScheduledBatches on a PageArena, or on what a device has instead:
// those that a step needs before it runs, those for later steps on a thread of its own while it runs.
// Invariant: the mappings of a batch are carried out in order, and after everything of earlier batches.
// Threads: one caller (the engine thread) beside its own.
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

// Pages that mappings show.
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

  // Waits for what is still being mapped ahead, then carries out `mappings`. Not ok: the system refused, here
  // or in the background; pages that a block table needs may be missing.
  Status map(std::span<const PageMapping> mappings);
  // Returns at once.
  void map_ahead(std::span<const PageMapping> mappings);
  Status create_pages(std::int64_t first, std::int64_t count);
  // Gives created pages memory before they are used; false: the system did not.
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
  std::vector<PageMapping> ahead_;  // being carried out by the thread; empty: nothing to do
  bool stop_ = false;
  Status status_;       // the thread's error
  MapStats stats_;      // ..._ahead by the thread, under the mutex
  std::thread thread_;  // last
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
  // The thread is in a system call that ends; there is nobody else to wait for.
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
    // The caller leaves the list alone until it is empty.
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
