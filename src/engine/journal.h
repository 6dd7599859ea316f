#pragma once
// Journal: the latest events of the KV pool with the numbers of their steps, in one ring of fixed size. For
// /debug and live views to read; nobody decides anything by it. What the prefix cache holds is told apart
// (kv_cache/cache_observer.h): a hash and its tokens do not fit a small record. An engine without one pays a
// null check a step. The engine records forks, copies, swaps and preemptions, which it sees in the batch.
// Invariant: numbers of entries are consecutive;
// what a reader misses was overwritten, and it can see that. Units: entries. Threads: none; owned by whoever
// owns the engine core.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "request/changes.h"
#include "request/pool_event.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

class Journal final {
 public:
  struct Entry {
    std::int64_t number = 0;  // from 0, over all events since the start
    std::int64_t step = 0;    // in which it happened; between steps, the one before
    PoolEvent event;
  };

  // resource_exhausted: the account has no room for a ring of this size, which is taken at once.
  static Result<std::unique_ptr<Journal>> create(std::size_t capacity, MemoryBudget& budget,
                                                 MemoryBudget::AccountId account);

  void begin_step(std::int64_t step) { step_ = step; }
  void on_pool_event(const PoolEvent& event);
  // What the batch does to blocks that have owners already, and who was preempted for it.
  void on_batch(const ScheduledBatch& batch, std::span<SequenceGroup* const> preempted);
  void on_forks(std::span<const Change> changes);  // those among them, before they are carried out

  std::int64_t num_recorded() const { return num_recorded_; }
  // Those still there from number `first` on, oldest first, at most `limit`.
  std::vector<Entry> read(std::int64_t first, std::size_t limit) const;

 private:
  Journal(std::size_t capacity, MemoryReservation memory) : ring_(capacity), memory_(std::move(memory)) {}

  std::vector<Entry> ring_;  // entry n at n % size
  MemoryReservation memory_;
  std::int64_t num_recorded_ = 0, step_ = 0;
};

}  // namespace pagoda
