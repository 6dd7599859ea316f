#pragma once
// CacheEvents: connects a CacheObserver to an engine: the observer learns what the prefix cache holds, and
// when a step is complete. Borrows the observer. Threads: none; the engine thread's.
#include "engine/step_observer.h"
#include "kv_cache/cache_observer.h"

namespace pagoda {

class CacheEvents final : public StepObserver {
 public:
  explicit CacheEvents(CacheObserver& observer) : observer_(observer) {}
  void on_turn_end() override { observer_.end_step(); }
  CacheObserver* cache_observer() override { return &observer_; }

 private:
  CacheObserver& observer_;
};

}  // namespace pagoda
