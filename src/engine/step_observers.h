#pragma once
// StepObservers: an engine's observers, called in the order in which they were added. Borrows them. Threads:
// none; the engine thread's.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "engine/step_observer.h"

namespace pagoda {

class StepObservers {
 public:
  void add(StepObserver& observer) {
    CHECK(std::ranges::find(observers_, &observer) == observers_.end());
    observers_.push_back(&observer);
  }
  void remove(StepObserver& observer) { CHECK(std::erase(observers_, &observer) == 1); }

  // Example: notify(&StepObserver::on_step, report)
  template <class... Parameters, class... Arguments>
  void notify(void (StepObserver::*event)(Parameters...), const Arguments&... arguments) const {
    for (StepObserver* const observer : observers_) (observer->*event)(arguments...);
  }

 private:
  std::vector<StepObserver*> observers_;
};

}  // namespace pagoda
