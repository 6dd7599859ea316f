#pragma once
// PageMapper: carries out the mappings of ScheduledBatches on a PageArena: those that a step needs before it
// runs, those for later steps on a thread of its own while it runs.
// Invariant: the mappings of a batch are carried out in order, and after everything of earlier batches.
// Threads: one caller (the engine thread) beside its own.
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "request/page_ops.h"
#include "request/step_result.h"
#include "tensor/page_arena.h"

namespace pagoda {

class PageMapper {
 public:
  explicit PageMapper(PageArena arena);
  ~PageMapper();

  // Waits for what is still being mapped ahead, then carries out `mappings`. Not ok: the system refused, here
  // or in the background; pages that a block table needs may be missing.
  Status map(std::span<const PageMapping> mappings);
  // Returns at once.
  void map_ahead(std::span<const PageMapping> mappings);
  Status create_pages(std::int64_t first, std::int64_t count);
  // Gives created pages memory before they are used; false: the system did not.
  bool populate(std::int64_t first, std::int64_t count) { return arena_.populate(first, count); }

  const PageArena& arena() const { return arena_; }
  MapStats take_stats();  // since the last call

 private:
  Status carry_out(std::span<const PageMapping> mappings);
  void wait_for_thread(std::unique_lock<std::mutex>& lock);
  void run();

  PageArena arena_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<PageMapping> ahead_;  // being carried out by the thread; empty: nothing to do
  bool stop_ = false;
  Status status_;       // of the thread
  MapStats stats_;      // ..._ahead by the thread, under the mutex
  std::thread thread_;  // last
};

}  // namespace pagoda
