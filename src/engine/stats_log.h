#pragma once
// StatsLog: the line that a busy engine logs every ten seconds, worded as in vLLM. Threads: none; the engine
// thread's.
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "request/engine_snapshot.h"

namespace pagoda {

class StatsLog {
 public:
  static constexpr TimeNs kInterval = 10'000'000'000;
  using Take = std::function<EngineSnapshot()>;

  // Called after a step at `now`: returns the line once an interval has passed. `take` is called only if
  // needed. An engine that was idle for an interval starts over.
  std::optional<std::string> line(TimeNs now, const Take& take);

 private:
  TimeNs last_ = 0;  // 0: no step yet
  EngineTotals totals_;
};

}  // namespace pagoda
