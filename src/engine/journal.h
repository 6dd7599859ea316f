#pragma once
// Journal: the latest events of the KV pool with their step numbers, in a ring of fixed size, for /debug and
// live views. It affects no decision. It records forks, copies, swaps and preemptions from the batch. The
// content of the prefix cache is reported by kv_cache/cache_observer.h instead: a hash and its tokens do not
// fit a small record. Invariant: entries are numbered consecutively, so that a reader can tell what was
// overwritten unread. Units: entries. Threads: none; the engine thread's.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "engine/step_observer.h"
#include "request/pool_event.h"

namespace pagoda {

class Journal final : public StepObserver {
 public:
  struct Entry {
    std::int64_t number = 0;  // from 0, over all events since the start
    std::int64_t step = 0;    // step in which it happened; between steps, the previous one
    PoolEvent event;
  };

  // resource_exhausted if the account has no space for a ring of this size, which is reserved immediately.
  static Result<std::unique_ptr<Journal>> create(std::size_t capacity, MemoryBudget& budget,
                                                 MemoryBudget::AccountId account);

  void on_pool_event(const PoolEvent& event);
  // Records the batch's block copies and swaps, and the preemptions.
  void on_scheduled(std::int64_t step, const ScheduledBatch& batch,
                    std::span<SequenceGroup* const> preempted) override;
  void on_outcome(const StepOutcome& outcome) override;  // records its forks

  std::int64_t num_recorded() const { return num_recorded_; }
  // Returns the retained entries from number `first` on, oldest first, at most `limit`.
  std::vector<Entry> read(std::int64_t first, std::size_t limit) const;

 private:
  Journal(std::size_t capacity, MemoryReservation memory) : ring_(capacity), memory_(std::move(memory)) {}

  std::vector<Entry> ring_;  // entry n is at n % size
  MemoryReservation memory_;
  std::int64_t num_recorded_ = 0, step_ = 0;
};

}  // namespace pagoda
