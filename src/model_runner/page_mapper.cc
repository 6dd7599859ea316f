#include "model_runner/page_mapper.h"

#include "base/clock.h"

namespace pagoda {
namespace {

std::int64_t pages_of(std::span<const PageMapping> mappings) {
  std::int64_t pages = 0;
  for (const PageMapping& mapping : mappings)
    pages += mapping.page == kNoPage || mapping.block == kNoBlock ? 0 : mapping.count;
  return pages;
}

}  // namespace

PageMapper::PageMapper(PageArena arena) : arena_(std::move(arena)), thread_([this] { run(); }) {}

PageMapper::~PageMapper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Status PageMapper::carry_out(std::span<const PageMapping> mappings) {
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

void PageMapper::wait_for_thread(std::unique_lock<std::mutex>& lock) {
  // The thread is in a system call that ends; there is nobody else to wait for.
  done_.wait(lock, [this] { return ahead_.empty(); });
}

Status PageMapper::map(std::span<const PageMapping> mappings) {
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

void PageMapper::map_ahead(std::span<const PageMapping> mappings) {
  if (mappings.empty()) return;
  {
    std::unique_lock lock(mutex_);
    wait_for_thread(lock);
    ahead_.assign(mappings.begin(), mappings.end());
  }
  wake_.notify_one();
}

Status PageMapper::create_pages(std::int64_t first, std::int64_t count) {
  return arena_.create_pages(first, count);
}

MapStats PageMapper::take_stats() {
  const std::lock_guard lock(mutex_);
  return std::exchange(stats_, {});
}

void PageMapper::run() {
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
